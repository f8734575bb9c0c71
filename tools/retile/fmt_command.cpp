// retile fmt
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/language/checker.h"
#include "retile/language/parser.h"
#include "retile/language/printer.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/job.h"
#include "tools/retile/output.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

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

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  return true;
}

// Whole or not at all: the new text replaces the file when all of it is written. Till then it has a name that nobody
// can have guessed, and that was not there before.
void replace_file(const std::string& path, const std::string& text) {
  const auto give_up = [&] { throw RuntimeError(fmt::format("cannot replace '{}': {}", path, std::strerror(errno))); };
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr), &std::free);
  struct stat status {};
  if (target == nullptr || ::stat(target.get(), &status) != 0) give_up();
  std::string fresh = fmt::format("{}.XXXXXX", target.get());
  const int file = ::mkstemp(fresh.data());
  if (file < 0) give_up();
  bool right = write_all(file, text) && ::fchmod(file, status.st_mode & 07777U) == 0;
  right = ::close(file) == 0 && right;
  if (right && std::rename(fresh.c_str(), target.get()) == 0) return;
  const int error = errno;
  ::unlink(fresh.c_str());
  errno = error;
  give_up();
}

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
  if (arguments.in_place && changed) do_once_in_job([&] { replace_file(path, text); });
  return done;
}

int run(const Arguments& arguments) {
  if (arguments.check && arguments.in_place) throw UsageError("--check and --in-place contradict each other");
  const bool has_input = std::find(arguments.paths.begin(), arguments.paths.end(), "-") != arguments.paths.end();
  if (arguments.in_place && has_input) throw UsageError("--in-place needs files: standard input has no place");
  int status = done;
  for (const std::string& path : arguments.paths) {
    status = std::max(status, attempt([&] { return format_file(arguments, path); }));
  }
  return status;
}

}  // namespace

void add_fmt_command(CLI::App& app, int* status) {
  CLI::App* command = app.add_subcommand("fmt", "Print programs in canonical form");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("FILE", arguments->paths, "programs; - is standard input")->required()->type_name("");
  command->add_flag("--check", arguments->check, "print the names of files that fmt would change, and exit with 1");
  command->add_flag("-i,--in-place", arguments->in_place, "write the result back to the file");
  command->footer(examples);
  command->callback([arguments, status] { *status = run(*arguments); });
}

}  // namespace retile::command
