// The subcommands of retile: arguments in, library calls, results on standard output.
#pragma once

#include <CLI/CLI.hpp>

namespace retile::command {

// Exit statuses that scripts depend on.
enum ExitStatus : int {
  done = 0,
  bad_input = 1,
  bad_usage = 2,
  failed = 3,  // a run failed, or a well-formed plan or result did not verify
  bug = 70,
};

// Each adds a subcommand. When it is chosen, *status becomes its exit status.
void add_plan_command(CLI::App& app, int* status);
void add_run_command(CLI::App& app, int* status);
void add_transfer_command(CLI::App& app, int* status);
void add_rechunk_command(CLI::App& app, int* status);
void add_reshard_command(CLI::App& app, int* status);
void add_explain_command(CLI::App& app, int* status);
void add_draw_command(CLI::App& app, int* status);
void add_emit_command(CLI::App& app, int* status);
void add_verify_command(CLI::App& app, int* status);
void add_normalize_command(CLI::App& app, int* status);
void add_check_command(CLI::App& app, int* status);
void add_fmt_command(CLI::App& app, int* status);
void add_lower_command(CLI::App& app, int* status);
void add_bench_command(CLI::App& app, int* status);
void add_calibrate_command(CLI::App& app, int* status);

// Subcommands that describe the others and the app itself; they are added last.
void add_help_command(CLI::App& app);
void add_complete_command(CLI::App& app);
void add_man_command(CLI::App& app);

}  // namespace retile::command
