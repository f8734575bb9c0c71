// The subcommands of retile: arguments in, library calls, results on standard output.
#pragma once

#include "tools/retile/options.h"

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
void add_plan_command(Command app, int* status);
void add_run_command(Command app, int* status);
void add_transfer_command(Command app, int* status);
void add_rechunk_command(Command app, int* status);
void add_reshard_command(Command app, int* status);
void add_explain_command(Command app, int* status);
void add_draw_command(Command app, int* status);
void add_emit_command(Command app, int* status);
void add_verify_command(Command app, int* status);
void add_normalize_command(Command app, int* status);
void add_check_command(Command app, int* status);
void add_fmt_command(Command app, int* status);
void add_lower_command(Command app, int* status);
void add_bench_command(Command app, int* status);
void add_calibrate_command(Command app, int* status);

}  // namespace retile::command
