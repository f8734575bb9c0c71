// The command's front: parses arguments, and turns what is thrown into messages and exit statuses.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/version.h"
#include "tools/retile/command.h"
#include "tools/retile/job.h"
#include "tools/retile/program_input.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

constexpr const char* introduction = R"(retile moves sharded arrays between layouts.

Devices form a mesh of named axes; a type such as [8{x,y}32, 128] says how an array is cut over them.
retile plans the steps from one type to another, checks plans, and runs them on real data.
)";

constexpr const char* footer = R"(Try:
  retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]'
  retile plan --help

Exit status: 0 done, 1 the input is at fault, 2 the usage is at fault, 3 a run or a check failed, 70 a
bug in retile. Nothing but results is written to standard output.)";

int fail(int status, const std::string& message) {
  report_failure(status, message.c_str());
  return status;
}

// The subcommand's status, unless its results could not be written.
int finish(int status) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written) return status;
  return fail(failed, fmt::format("retile: cannot write to standard output: {}\n", std::strerror(errno)));
}

int run(int argument_count, char** arguments) {
  CLI::App app(introduction, "retile");
  app.set_version_flag("--version", fmt::format("retile {}", RETILE_VERSION), "Print the version and exit");
  app.require_subcommand(1);
  app.footer(footer);
  int status = done;
  add_plan_command(app, &status);
  add_run_command(app, &status);
  add_verify_command(app, &status);
  add_normalize_command(app, &status);
  add_check_command(app, &status);
  add_fmt_command(app, &status);
  add_lower_command(app, &status);
  add_bench_command(app, &status);
  try {
    require_same_arguments(argument_count, arguments);
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return fail(bad_usage, usage_message(app, error));
    std::ostringstream text;  // --help, --version
    app.exit(error, text, text);
    std::fputs(text.str().c_str(), stdout);
  } catch (const UsageError& error) {
    return fail(bad_usage, usage_message(app, error));
  } catch (const language::ProgramError& error) {
    return fail(bad_input, text_of(error.diagnostics()));
  } catch (const InputError& error) {
    return fail(bad_input, to_string(error.diagnostic()));
  } catch (const ProgramFailure& error) {
    return fail(failed, to_string(error.diagnostic()));
  } catch (const RuntimeError& error) {
    return fail(failed, fmt::format("retile: {}\n", error.what()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(bug, fmt::format("retile: this is a bug in retile: {}\n", error.what()));
  }
  return finish(status);
}

// Nothing gets past here: other ranks may wait for this one, and the end of the job would wait for them. Messages are
// plain, since there may be no memory.
int run_in_job(int argument_count, char** arguments) {
  const Job job;
  try {
    return run(argument_count, arguments);
  } catch (const std::bad_alloc&) {
    report_failure(failed, "retile: out of memory\n");
    return failed;
  } catch (...) {
    report_failure(bug, "retile: this is a bug in retile\n");
    return bug;
  }
}

}  // namespace
}  // namespace retile::command

int main(int argument_count, char** arguments) {
  try {
    return retile::command::run_in_job(argument_count, arguments);
  } catch (const std::bad_alloc&) {
    std::fputs("retile: out of memory\n", stderr);
  } catch (const std::exception& error) {  // MPI does not start
    std::fputs("retile: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
  }
  return retile::command::failed;
}
