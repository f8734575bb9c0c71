// retile check
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "retile/language/checker.h"
#include "retile/plan/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace check_command {

constexpr const char* examples =
    R"(A program declares its mesh, then functions on distributed arrays:

  mesh {x: 4}
  fn main(a: [2{x}8, 8]) -> [8, 2{x}8] {
    b = spmd_op a (tile: [2, 8]) { return relu tile } as [2{x}8, 8]
    c = redistribute b as [8, 2{x}8]
    return c
  }

Nothing is printed if programs are right. All mistakes of a program are reported at once, each with its
place.

Example:
  echo 'mesh {x: 4} fn main(a: [2{x}8]) -> [8] { b = undistribute a return b }' |
    retile check - && echo right)";

struct Arguments {
  std::vector<std::string> paths;
  bool verbose = false;
};

int check(const std::string& path, bool verbose) {
  const language::Program program = language::read_program(read_file(path)).program;
  if (!verbose) return done;
  std::int64_t statements = 0;
  for (const language::Function& function : program.functions) {
    statements += static_cast<std::int64_t>(function.statements.size());
  }
  std::fputs(fmt::format("{}: {}, {}, {}\n", program.source->name, count_of(program.mesh.device_count(), "device"),
                         count_of(static_cast<std::int64_t>(program.functions.size()), "function"),
                         count_of(statements, "statement"))
                 .c_str(),
             stderr);
  return done;
}

int run(const Arguments& arguments) {
  int status = done;
  for (const std::string& path : arguments.paths) {
    status = std::max(status, attempt([&] { return check(path, arguments.verbose); }));
  }
  return status;
}

}  // namespace check_command

void add_check_command(Command app, int* status) {
  using namespace check_command;
  const auto [command, arguments] = add_subcommand(app, "check", "Check programs", examples, run, status);
  command.add_option("FILE", arguments.paths, "programs; - is standard input").required().type_name("");
  command.add_flag("-v,--verbose", arguments.verbose, "say what was checked, one line a file, on standard error");
}

}  // namespace retile::command
