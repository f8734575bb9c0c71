#include "tools/retile/run_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/utf8.h"
#include "retile/language/checker.h"
#include "retile/render/terminal.h"
#include "retile/types/text.h"
#include "tools/retile/command.h"
#include "tools/retile/program_input.h"
#include "tools/retile/progress.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

using runtime::ProgramReport;
using runtime::ResultReport;

// "x=x.npy" and more of them.
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

std::string render_result(const ResultReport& result) {
  std::int64_t count = 1;  // of elements, as far as it matters
  for (const std::int64_t size : result.shape)
    count = std::min<std::int64_t>(count * std::min<std::int64_t>(size, 1000), 1000);
  const bool more = count > static_cast<std::int64_t>(result.elements.size());
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

}  // namespace

void add_program_options(CLI::App& command, ProgramArguments& arguments) {
  command
      .add_option("--arg", arguments.arguments,
                  "an argument of a program's main function, from a .npy file; others are made up from the seed")
      ->type_name("NAME=FILE");
  command.add_option("--out", arguments.outputs, "write a value that the main function returns to a .npy file")
      ->type_name("NAME=FILE");
  command.add_flag("--verify", arguments.verify,
                   "run the program once more without planner and engine, and compare all results bit by bit");
}

bool is_given(const ProgramArguments& arguments) {
  return !arguments.arguments.empty() || !arguments.outputs.empty() || arguments.verify;
}

int run_program_file(const std::string& path, const ProgramArguments& arguments, runtime::ProgramRunOptions options,
                     const ProgramOutput& output, Engine& engine) {
  options.arguments = files_by_name(arguments.arguments, "--arg");
  options.outputs = files_by_name(arguments.outputs, "--out");
  options.verify = arguments.verify;
  return for_each_program({path}, [&](const language::CheckedProgram& checked) {
    Progress progress("running", static_cast<std::size_t>(count_statements(checked.program, options)));
    options.after_statement = [&] { progress.advance(); };
    const ProgramReport report = run_and_report(checked.program, engine, options);
    progress.clear();
    if (!engine.is_speaker()) return;
    const bool silent = report.difference && !output.json;
    if (!silent) std::fputs((output.json ? to_json(report) + "\n" : render_report(report)).c_str(), stdout);
    if (report.difference) throw RuntimeError("the result is wrong: " + *report.difference);
  });
}

}  // namespace retile::command
