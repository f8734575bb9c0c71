#include "tools/retile/input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "retile/base/error.h"
#include "retile/pipeline.h"
#include "retile/types/element_type.h"
#include "tools/retile/command.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_read(const std::string& path) {
  throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)), {});
}

std::string read_all(std::FILE* file, const std::string& path) {
  std::string text;
  std::vector<char> buffer(1U << 16U);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), count);
  if (std::ferror(file) != 0) fail_to_read(path);
  return text;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// The problem that the arguments themselves spell out.
Problem problem_of(const ProblemArguments& arguments) {
  const SourceText mesh{"argument --mesh", arguments.mesh};
  const SourceText source{"argument SRC", arguments.source};
  const SourceText target{"argument DST", arguments.target};
  return read_problem(mesh, source, target, *find_element_type(arguments.element_type));
}

void check_usage(const ProblemArguments& arguments) {
  const bool by_file = !arguments.problems.empty();
  const bool by_arguments = !arguments.source.empty() || !arguments.target.empty() || !arguments.mesh.empty();
  if (by_file && by_arguments) throw UsageError("--problems stands alone: no --mesh, SRC or DST beside it");
  if (by_file) return;
  if (!by_arguments) throw UsageError("nothing to do: give --mesh, SRC and DST, or --problems FILE");
  if (arguments.source.empty() || arguments.target.empty()) throw UsageError("SRC and DST are both needed");
  if (arguments.mesh.empty()) throw UsageError("--mesh is needed beside SRC and DST, as in --mesh a=2,b=2");
}

}  // namespace

SourceText read_file(const std::string& path) {
  if (path == "-") return {"standard input", read_all(stdin, "standard input")};
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_to_read(path);
  return {path, read_all(file.get(), path)};
}

void for_each_line(const SourceText& text, const std::function<void(const SourceText& line)>& visit) {
  int number = text.first_line;
  for (std::size_t begin = 0; begin < text.text.size(); ++number) {
    const std::size_t end = std::min(text.text.find('\n', begin), text.text.size());
    const SourceText line{text.name, text.text.substr(begin, end - begin), number};
    if (!is_blank(line.text)) visit(line);
    begin = end + 1;
  }
}

void add_problem_options(CLI::App& command, ProblemArguments& arguments) {
  command.add_option("SRC", arguments.source, "type of the array as it is, e.g. '[4{a}8, 16]'");
  command.add_option("DST", arguments.target, "type of the array as it is wanted");
  command.add_option("--mesh", arguments.mesh, "axes and their sizes, e.g. a=2,b=2,c=2")->type_name("AXES");
  command.add_option("--problems", arguments.problems, "file with one problem a line as JSON; - is standard input")
      ->type_name("FILE");
  command.add_option("--dtype", arguments.element_type, "element type of SRC and DST")
      ->check(CLI::IsMember({"i8", "f16", "bf16", "i32", "f32", "f64", "c64", "c128"}))
      ->capture_default_str()
      ->type_name("TYPE");
  command.add_option("--planner", arguments.planner, "gather-slice: gather everything, then slice")
      ->check(CLI::IsMember({"gather-slice"}))
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option("--cost", arguments.cost_model,
                  "paper: elements sent per device; volume: the most that a device receives")
      ->check(CLI::IsMember({"paper", "volume"}))
      ->capture_default_str()
      ->type_name("MODEL");
}

PlanOptions plan_options(const ProblemArguments& arguments) {
  PlanOptions options;
  options.planner = *find_planner(arguments.planner);
  options.cost_model = *find_cost_model(arguments.cost_model);
  return options;
}

int for_each_problem(const ProblemArguments& arguments, std::string_view action,
                     const std::function<void(const Problem& problem)>& visit) {
  check_usage(arguments);
  if (arguments.problems.empty()) {
    visit(problem_of(arguments));
    return done;
  }
  const SourceText file = read_file(arguments.problems);
  std::vector<SourceText> lines;
  for_each_line(file, [&](const SourceText& line) { lines.push_back(line); });
  if (lines.empty())
    throw InputError(diagnose(file, {0, 0}, "there are no problems in this file", "each line is one, as JSON"));

  int status = done;
  Progress progress(std::string(action), lines.size());
  for (const SourceText& line : lines) {
    try {
      visit(read_problem(line));
    } catch (const InputError& error) {
      progress.clear();
      std::fputs(to_string(error.diagnostic()).c_str(), stderr);
      status = status == failed ? failed : bad_input;
    } catch (const RuntimeError& error) {
      progress.clear();
      std::fputs(fmt::format("{}:{}: error: {}\n", line.name, line.first_line, error.what()).c_str(), stderr);
      status = failed;
    }
    progress.advance();
  }
  return status;
}

}  // namespace retile::command
