#include "tools/retile/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "retile/base/error.h"
#include "retile/base/input_errors.h"
#include "retile/base/new_file.h"
#include "tools/retile/command.h"
#include "tools/retile/job.h"
#include "tools/retile/options.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace {

std::string& color_choice() {
  static std::string choice = "auto";
  return choice;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool has_colors(std::FILE* file) {
  if (color_choice() != "auto") return color_choice() == "always";
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(fileno(file)) != 0 && !is_dumb && !is_launched() && !is_set("NO_COLOR");
}

std::string text_of(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += to_string(diagnostic, palette_of(stderr));
  return text;
}

Diagnostic placed(const Diagnostic& diagnostic, const SourceText* line) {
  if (diagnostic.line > 0 || line == nullptr) return diagnostic;
  return diagnose(*line, {0, line->text.size()}, diagnostic.message, diagnostic.hint);
}

int fail_at(const SourceText* line, int status, const std::string& message) {
  if (line == nullptr) return fail(status, fmt::format("retile: {}\n", message));
  return fail(status, fmt::format("{}:{}: {} {}\n", line->name, line->first_line,
                                  Palette::paint(palette_of(stderr).error, "error:"), message));
}

}  // namespace

void add_color_option(Command command) {
  command.add_option("--color", color_choice(), "auto: on a terminal, unless NO_COLOR is set; always; never")
      .check(known_name("auto, always, never"))
      .type_name("WHEN");
}

const Palette& palette_of(std::FILE* file) { return has_colors(file) ? colored : plain; }

void write_part(std::string_view text) {
  clear_progress();
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void write_result(std::string_view text) {
  write_part(text);
  std::fflush(stdout);
}

void write_result_to(const std::optional<std::string>& path, std::string_view text) {
  if (!path) return write_result(text);
  do_once_in_job([&] { write_file(*path, text); });
}

void write_remark(const std::string& text) {
  clear_progress();
  do_once_in_job([&] { std::fputs(text.c_str(), stderr); });
}

int fail(int status, const std::string& message) {
  clear_progress();
  report_failure(status, message.c_str());
  return status;
}

int attempt(const std::function<int()>& work, const SourceText* line) {
  try {
    return work();
  } catch (const InputErrors& error) {
    return fail(bad_input, text_of(error.diagnostics()));
  } catch (const InputError& error) {
    return fail(bad_input, text_of({placed(error.diagnostic(), line)}));
  } catch (const ProgramFailure& error) {
    return fail(failed, text_of({error.diagnostic()}));
  } catch (const RuntimeError& error) {
    return fail_at(line, failed, error.what());
  } catch (const UsageError& error) {
    if (line == nullptr) throw;  // reported by the caller, with advice
    return fail_at(line, bad_usage, error.what());
  } catch (const std::bad_alloc&) {
    return fail_at(line, failed, "out of memory");
  }
}

}  // namespace retile::command
