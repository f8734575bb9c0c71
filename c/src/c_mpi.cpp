#include "retile/c_mpi.h"

#include "c/src/handles.h"
#include "retile/mpi.h"

namespace {

using namespace retile;

mpi::MpiOptions options_of(const retile_mpi_options* given) {
  mpi::MpiOptions options;
  if (given == nullptr) return options;
  if (given->transport != nullptr) {
    const auto transport = mpi::find_transport(given->transport);
    if (!transport) {
      throw InputError(std::string("unknown transport '") + given->transport + "'",
                       "transports are " + std::string(mpi::transport_names));
    }
    options.transport = *transport;
  }
  if (given->staging_bytes != 0) options.staging_bytes = given->staging_bytes;
  const std::span<const std::int64_t> map = c::list_of(given->device_map, given->device_map_size, "device_map");
  options.device_map.assign(map.begin(), map.end());
  return options;
}

}  // namespace

retile_status retile_engine_mpi(MPI_Comm comm, retile_engine** engine) {
  return retile_engine_mpi_with(comm, nullptr, engine);
}

retile_status retile_engine_mpi_with(MPI_Comm comm, const retile_mpi_options* options, retile_engine** engine) {
  return c::guarded([&] {
    const mpi::MpiOptions given = mpi::together(comm, [&] {
      c::require(engine, "engine");
      return options_of(options);
    });
    *engine = new retile_engine{mpi::engine_of(comm, given)};
  });
}

retile_status retile_engine_mpi_fortran(MPI_Fint comm, retile_engine** engine) {
  return retile_engine_mpi(MPI_Comm_f2c(comm), engine);
}
