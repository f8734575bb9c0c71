#include "tools/retile/program_input.h"

#include <string>

#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/job.h"

namespace retile::command {

std::string text_of(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += to_string(diagnostic);
  return text;
}

int for_each_program(const std::vector<std::string>& paths,
                     const std::function<void(const language::CheckedProgram& program)>& visit) {
  int status = done;
  for (const std::string& path : paths) {
    try {
      visit(language::read_program(read_file(path)));
    } catch (const language::ProgramError& error) {
      report_failure(bad_input, text_of(error.diagnostics()).c_str());
      status = bad_input;
    } catch (const InputError& error) {
      report_failure(bad_input, to_string(error.diagnostic()).c_str());
      status = bad_input;
    }
  }
  return status;
}

}  // namespace retile::command
