#include "tools/retile/engine_option.h"

#include "retile/engines/mpi_options.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

constexpr std::string_view engine_names = "threads, reference, mpi";
constexpr std::uint64_t most_threads = 4096;

bool is_engine(const std::string& name) { return name == "threads" || name == "reference" || name == "mpi"; }

}  // namespace

void add_engine_options(CLI::App& command, EngineArguments& arguments) {
  command
      .add_option("--engine", arguments.engine,
                  "threads: all devices in this process; reference: slow and obviously right;\n"
                  "mpi: devices are MPI ranks, the default where mpirun starts several")
      ->check(known_name(engine_names, is_engine))
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--threads", arguments.threads, "threads of the threads engine; one for each core unless given")
      ->check(whole_number(1, most_threads))
      ->type_name("N");
  command
      .add_option("--transport", arguments.transport,
                  "how MPI ranks reach each other. auto: directly within a host, else as suits the step;\n"
                  "collectives: alltoall and allgather are MPI's own; messages: everything is sent")
      ->check(known_name(mpi::transport_names, mpi::find_transport))
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option("--device-map", arguments.device_map,
                  "devices of the MPI ranks: row-major, or listed rank by rank, e.g. 0,2,1,3")
      ->capture_default_str()
      ->type_name("MAP");
  command.add_option("--staging", arguments.staging, "bytes that an MPI rank may have for pieces under way")
      ->check(whole_number(mpi::least_staging, mpi::most_staging))
      ->capture_default_str()
      ->type_name("BYTES");
}

std::unique_ptr<Engine> make_engine(const EngineArguments& arguments) {
  if (arguments.engine == "mpi") {
    mpi::MpiOptions options;
    options.transport = *mpi::find_transport(arguments.transport);
    options.staging_bytes = arguments.staging;
    options.device_map = mpi::parse_device_map({"argument --device-map", arguments.device_map});
    return make_job_engine(options);
  }
  if (arguments.engine == "reference") return make_reference_engine();
  ThreadsOptions options;
  options.threads = arguments.threads;
  return make_threads_engine(options);
}

}  // namespace retile::command
