// retile fmt
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/language/parser.h"
#include "retile/language/printer.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/program_input.h"
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

// Whole or not at all: the new text replaces the file when all of it is written.
void replace_file(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  try {
    const fs::path target = fs::canonical(path);
    const fs::path fresh = target.string() + ".retile-new";
    std::ofstream file(fresh, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      std::error_code ignored;
      fs::remove(fresh, ignored);
      throw RuntimeError(fmt::format("cannot write '{}': {}", fresh.string(), why));
    }
    fs::permissions(fresh, fs::status(target).permissions());
    fs::rename(fresh, target);
  } catch (const fs::filesystem_error& error) {
    throw RuntimeError(fmt::format("cannot replace '{}': {}", path, error.code().message()));
  }
}

int format_file(const Arguments& arguments, const std::string& path) {
  const SourceText source = read_file(path);
  const language::ParseResult parsed = language::parse_program(source);
  if (!parsed.diagnostics.empty()) {
    std::fputs(text_of(parsed.diagnostics).c_str(), stderr);
    return bad_input;
  }
  const std::string text = to_string(parsed.tree);
  const bool changed = text != source.text;
  if (arguments.check) {
    if (changed) std::fputs((source.name + "\n").c_str(), stdout);
    return changed ? bad_input : done;
  }
  if (!arguments.in_place) std::fputs(text.c_str(), stdout);
  if (arguments.in_place && changed) replace_file(path, text);
  return done;
}

int run(const Arguments& arguments) {
  if (arguments.check && arguments.in_place) throw UsageError("--check and --in-place contradict each other");
  const bool has_input = std::find(arguments.paths.begin(), arguments.paths.end(), "-") != arguments.paths.end();
  if (arguments.in_place && has_input) throw UsageError("--in-place needs files: standard input has no place");
  int status = done;
  for (const std::string& path : arguments.paths) {
    try {
      status = std::max(status, format_file(arguments, path));
    } catch (const InputError& error) {
      std::fputs(to_string(error.diagnostic()).c_str(), stderr);
      status = bad_input;
    }
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
