// retile fmt
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "retile/base/new_file.h"
#include "retile/language/checker.h"
#include "retile/language/parser.h"
#include "retile/language/printer.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/job.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace fmt_command {

constexpr const char* examples =
    R"(Prints programs in their one canonical form: indentation, spaces, names of axes without quotes where they
need none. Comments stay, each with the statement that it belongs to, and single blank lines too. A program
only has to parse: what it computes is not checked.

Examples:
  echo 'mesh {"x": 4} fn main(a:[2{"x"}8]) -> [8] {b=undistribute a  return b}' | retile fmt -
  printf 'mesh {x: 4}\n\nfn main(a: [8]) -> [8] {\n  return a\n}\n' | retile fmt --check - && echo formatted)";

struct Arguments {
  std::vector<std::string> paths;
  bool check = false;
  bool in_place = false;
};

int format_file(const Arguments& arguments, const std::string& path) {
  const SourceText source = read_file(path);
  language::ParseResult parsed = language::parse_program(source);
  if (!parsed.diagnostics.empty()) throw language::ProgramError(std::move(parsed.diagnostics));
  const std::string text = to_string(parsed.tree);
  const bool changed = text != source.text;
  if (arguments.check) {
    if (changed) write_result(source.name + "\n");
    return changed ? bad_input : done;
  }
  if (!arguments.in_place) write_result(text);
  if (arguments.in_place && changed) do_once_in_job([&] { write_file(path, text); });
  return done;
}

int run(const Arguments& arguments) {
  if (arguments.check && arguments.in_place) throw UsageError("--check and --in-place contradict each other");
  const bool has_input = std::find(arguments.paths.begin(), arguments.paths.end(), "-") != arguments.paths.end();
  if (arguments.in_place && has_input)
    throw UsageError("--in-place needs files: standard input cannot be written back");
  int status = done;
  for (const std::string& path : arguments.paths) {
    status = std::max(status, attempt([&] { return format_file(arguments, path); }));
  }
  return status;
}

}  // namespace fmt_command

void add_fmt_command(Command app, int* status) {
  using namespace fmt_command;
  const auto [command, arguments] =
      add_subcommand(app, "fmt", "Print programs in canonical form", examples, run, status);
  command.add_option("FILE", arguments.paths, "programs; - is standard input").required().type_name("");
  command.add_flag("--check", arguments.check, "print the names of files that fmt would change, and exit with 1");
  command.add_flag("-i,--in-place", arguments.in_place, "write the result back to the file");
}

}  // namespace retile::command
