#include "tools/retile/engine_option.h"

#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

constexpr std::string_view engine_names = "threads, reference";
constexpr std::uint64_t most_threads = 4096;

bool is_engine(const std::string& name) { return name == "threads" || name == "reference"; }

}  // namespace

void add_engine_options(CLI::App& command, EngineArguments& arguments) {
  command
      .add_option("--engine", arguments.engine,
                  "threads: all devices in this process; reference: slow and obviously right")
      ->check(known_name(engine_names, is_engine))
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--threads", arguments.threads, "threads of the threads engine; one for each core unless given")
      ->check(whole_number(1, most_threads))
      ->type_name("N");
}

std::unique_ptr<Engine> make_engine(const EngineArguments& arguments) {
  if (arguments.engine == "reference") return make_reference_engine();
  ThreadsOptions options;
  options.threads = arguments.threads;
  return make_threads_engine(options);
}

}  // namespace retile::command
