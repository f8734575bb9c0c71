// The front of the command: parses arguments, and turns exceptions into messages and exit statuses.
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>

#include "retile/base/new_file.h"
#include "retile/version.h"
#include "tools/retile/command.h"
#include "tools/retile/job.h"
#include "tools/retile/output.h"
#include "tools/retile/parser/usage.h"

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
  const Command commands(app);
  add_plan_command(commands, &status);
  add_run_command(commands, &status);
  add_transfer_command(commands, &status);
  add_rechunk_command(commands, &status);
  add_reshard_command(commands, &status);
  add_explain_command(commands, &status);
  add_draw_command(commands, &status);
  add_emit_command(commands, &status);
  add_verify_command(commands, &status);
  add_normalize_command(commands, &status);
  add_check_command(commands, &status);
  add_fmt_command(commands, &status);
  add_lower_command(commands, &status);
  add_bench_command(commands, &status);
  add_calibrate_command(commands, &status);
  for (CLI::App* command : app.get_subcommands({})) add_color_option(Command(*command));
  add_help_command(app);
  add_complete_command(app);
  add_man_command(app);
  try {
    status = attempt([&] {
      require_same_arguments(argument_count, arguments);
      app.parse(argument_count, arguments);
      return status;
    });
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return fail(bad_usage, usage_message(app, error));
    std::ostringstream text;  // --help, --version
    app.exit(error, text, text);
    write_result(text.str());
  } catch (const UsageError& error) {
    return fail(bad_usage, usage_message(app, error));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(bug, fmt::format("retile: this is a bug in retile: {}\n", error.what()));
  }
  return finish(status);
}

// Catches everything: other ranks may wait for this one, and the end of the job would wait for them. Messages are
// plain, because there may be no memory.
int run_in_job(int argument_count, char** arguments) {
  const Job job;
  try {
    return run(argument_count, arguments);
  } catch (const std::bad_alloc&) {
    report_failure(failed, "retile: out of memory\n");
    return failed;
  } catch (const std::exception& error) {
    return fail(bug, fmt::format("retile: this is a bug in retile: {}\n", error.what()));
  } catch (...) {
    report_failure(bug, "retile: this is a bug in retile\n");
    return bug;
  }
}

// Called where an exception cannot be thrown, for example out of memory in a destructor of the JSON library.
[[noreturn]] void terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fputs("retile: out of memory\n", stderr);
    std::_Exit(failed);
  } catch (...) {  // the signal shows that this is a bug
  }
  std::abort();
}

// Ends the process as the signal would have, after removing unfinished files.
void stop(int signal) {
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void prepare_for_signals() {
  std::signal(SIGXFSZ, SIG_IGN);  // writing to a file that may not grow fails with an error instead
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    if (std::signal(signal, stop) == SIG_IGN) std::signal(signal, SIG_IGN);  // stay ignored, as nohup sets them
  }
}

}  // namespace
}  // namespace retile::command

int main(int argument_count, char** arguments) {
  std::set_terminate(retile::command::terminate);
  retile::command::prepare_for_signals();
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
