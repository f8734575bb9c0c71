#include "tools/retile/engine_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "retile/base/error.h"
#ifdef RETILE_HAS_CUDA
#include "retile/engines/cuda/cuda_engine.h"
#endif
#ifdef RETILE_HAS_CUDA_MPI
#include "retile/engines/cuda_mpi/cuda_ranks.h"
#endif
#include "retile/engines/mpi_options.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"

namespace retile::command {
namespace {

constexpr std::uint64_t most_threads = 4096;

}  // namespace

void check_engine_options(const EngineArguments& arguments) {
  const auto check = [&](const char* option, const char* engine) {
    if (!arguments.command.is_given(option) || arguments.engine == engine) return;
    throw UsageError(fmt::format("{} goes with --engine {}, not {}", option, engine, arguments.engine));
  };
  check("--threads", "threads");
  for (const char* option : {"--transport", "--device-map", "--staging"}) check(option, "mpi");
}

void add_engine_options(Command command, EngineArguments& arguments, EngineChoice choice) {
  arguments.command = command;
  const bool has_all = choice == EngineChoice::all;
  add_value(command, "--engine", arguments.engine,
            fmt::format("threads: all devices in this process;{}\n"
                        "cuda: all devices on one GPU, or on GPUs of MPI ranks where mpirun starts several{};\n"
                        "mpi: devices are MPI ranks, the default where mpirun starts several",
                        has_all ? " reference: slow and obviously right;" : "", has_all ? "; arrays only" : ""),
            "NAME", known_name(has_all ? "threads, reference, cuda, mpi" : "threads, cuda, mpi"));
  command.add_option("--threads", arguments.threads, "threads of the threads engine; by default one for each core")
      .check(whole_number(1, most_threads))
      .type_name("N");
  add_value(command, "--transport", arguments.transport,
            "how MPI ranks reach each other. auto: directly within a host, else as suits the step;\n"
            "collectives: alltoall and allgather are MPI's own; messages: everything is sent",
            "NAME", known_name(mpi::transport_names));
  command
      .add_option("--device-map", arguments.device_map,
                  "devices of the MPI ranks: row-major, or listed rank by rank, e.g. 0,2,1,3")
      .capture_default_str()
      .type_name("MAP");
  command.add_option("--staging", arguments.staging, "the most bytes that an MPI rank may hold for messages under way")
      .transform(byte_count(mpi::least_staging, mpi::most_staging))
      .capture_default_str()
      .type_name("BYTES");
}

int thread_count(const EngineArguments& arguments) {
  return arguments.threads > 0 ? arguments.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

namespace {

std::unique_ptr<Engine> make_gpu_engine() {
#ifdef RETILE_HAS_CUDA_MPI
  if (is_in_job()) return cuda::make_cuda_engine_on_all_ranks();
#endif
#ifdef RETILE_HAS_CUDA
  return cuda::make_cuda_engine();
#else
  throw RuntimeError("this retile was built without CUDA");
#endif
}

}  // namespace

std::unique_ptr<Engine> make_engine(const EngineArguments& arguments, const std::optional<std::string>& machine) {
  check_engine_options(arguments);
  if (arguments.engine == "mpi") {
    mpi::MpiOptions options;
    options.transport = *mpi::find_transport(arguments.transport);
    options.staging_bytes = arguments.staging;
    options.device_map = mpi::parse_device_map({"argument --device-map", arguments.device_map});
    if (machine) options.link_rates = machine_of(*machine).link_rates();
    return make_job_engine(options);
  }
  if (arguments.engine == "reference") return make_reference_engine();
  if (arguments.engine == "cuda") return make_gpu_engine();
  ThreadsOptions options;
  options.threads = arguments.threads;
  return make_threads_engine(options);
}

void require_ranks(const Engine& engine, std::int64_t devices) {
  if (engine.processes().size() == 1) return;  // a single process has all devices, and need not list them
  try {
    engine.devices(devices);
  } catch (const RuntimeError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace retile::command
