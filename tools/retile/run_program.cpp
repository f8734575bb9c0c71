#include "tools/retile/run_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/language/checker.h"
#include "retile/plan/text.h"
#include "retile/planner/memory_limit.h"
#include "retile/types/text.h"
#include "tools/retile/command.h"
#include "tools/retile/engine_option.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace {

using runtime::ProgramReport;
using runtime::ResultReport;

// The files of options such as "x=x.npy", by name.
std::map<std::string, std::string> files_by_name(const std::vector<std::string>& texts, const std::string& option) {
  std::map<std::string, std::string> files;
  for (const std::string& text : texts) {
    const std::size_t sign = text.find('=');
    if (sign == 0 || sign == std::string::npos || sign + 1 == text.size()) {
      throw UsageError(fmt::format("{}: '{}' is not of the form NAME=FILE", option, text));
    }
    const std::string name = text.substr(0, sign);
    if (!files.emplace(name, text.substr(sign + 1)).second) {
      throw UsageError(fmt::format("{}: '{}' is given more than once", option, name));
    }
  }
  return files;
}

// Refuses two results in one file: the first would be lost.
void check_distinct(const std::map<std::string, std::string>& outputs) {
  std::map<std::filesystem::path, std::string> names;
  for (const auto& [name, file] : outputs) {
    std::error_code ignored;
    const auto [earlier, is_new] =
        names.emplace(std::filesystem::weakly_canonical(std::filesystem::absolute(file), ignored), name);
    if (is_new || ignored) continue;
    throw UsageError(fmt::format("--out: '{}' and '{}' are written to one file, '{}'", earlier->second, name, file));
  }
}

std::string render_result(const ResultReport& result) {
  const bool more = product(result.shape) > static_cast<std::int64_t>(result.elements.size());
  return fmt::format("{} : {}\n  shape {}  checksum {:#018x}\n  {}{}\n", result.name, result.type,
                     to_string(result.shape), result.checksum, fmt::join(result.elements, " "), more ? " …" : "");
}

std::string render_report(const ProgramReport& report) {
  std::string text;
  for (const ResultReport& result : report.results) text += render_result(result);
  const double fastest = *std::min_element(report.seconds.begin(), report.seconds.end());
  text += fmt::format("{}, {} engine: {}{:.6f} s, peak {} of {} bytes predicted\n", count_of(report.devices, "device"),
                      report.engine, report.verified ? "verified, " : "", fastest,
                      group_digits(report.peak_bytes_measured), group_digits(report.peak_bytes_predicted));
  return text;
}

ProgramReport run_with_progress(const language::LoweredProgram& lowered, Engine& engine,
                                runtime::ProgramRunOptions options) {
  Progress progress("running", static_cast<std::size_t>(count_statements(lowered.program, options)));
  options.after_statement = [&] { progress.advance(); };
  return run_and_report(lowered, engine, options);
}

void print_report(const ProgramReport& report, bool json) {
  if (json) write_result(to_json(report) + "\n");
  if (!json && !report.difference) write_result(render_report(report));
}

}  // namespace

void add_program_options(Command command, ProgramArguments& arguments) {
  command
      .add_option("--arg", arguments.arguments,
                  "an argument of a program's main function, from a .npy file; others are made up from the seed")
      .type_name("NAME=FILE");
  command.add_option("--out", arguments.outputs, "write a value that the main function returns to a .npy file")
      .type_name("NAME=FILE");
  command.add_flag("--verify", arguments.verify,
                   "run the program once more without planner and engine, and compare all results bit by bit");
}

bool is_given(const ProgramArguments& arguments) {
  return !arguments.arguments.empty() || !arguments.outputs.empty() || arguments.verify;
}

void run_program_file(const std::string& path, const ProgramArguments& arguments,
                      const std::optional<std::string>& memory_limit, PlanOptions planning,
                      runtime::ProgramRunOptions options, bool json, Engine& engine) {
  options.arguments = files_by_name(arguments.arguments, "--arg");
  options.outputs = files_by_name(arguments.outputs, "--out");
  check_distinct(options.outputs);
  options.verify = arguments.verify;
  if (memory_limit) planning.memory_limit = parse_byte_count({"argument --memory-limit", *memory_limit});
  planning.executor = restricted_to(planning.executor.transport, engine.executor(TileOwner::engine));
  language::Program program = language::read_program(read_file(path)).program;
  require_ranks(engine, program.mesh.device_count());
  const language::LoweredProgram lowered = lower_program(std::move(program), planning);
  const ProgramReport report = run_with_progress(lowered, engine, options);
  if (engine.processes().is_speaker()) print_report(report, json);
  if (report.difference) throw RuntimeError("the result is wrong: " + *report.difference);
}

}  // namespace retile::command
