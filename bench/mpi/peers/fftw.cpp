#include "bench/mpi/peers/fftw.h"

#include <fftw3-mpi.h>

#include <memory>

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"

namespace retile::bench {
namespace {

void require_expressible(const Problem& problem) {
  const DistributedType& source = require_typed(problem).source();
  const DistributedType& target = require_typed(problem).target();
  const std::int64_t devices = problem.device_count();
  const bool rows_to_columns = source.rank() == 2 && source.dimension(0).tile * devices == source.dimension(0).global &&
                               target.dimension(1).tile * devices == target.dimension(1).global;
  if (problem.element_type() != ElementType::f32) throw RuntimeError("fftwf_mpi transposes elements of f32");
  if (!rows_to_columns) throw RuntimeError("fftwf_mpi transposes rows to columns, over all devices");
  for (Device device = 0; device < devices; ++device) {
    const std::int64_t row = source.base_offset(device)[0] / source.dimension(0).tile;
    const std::int64_t column = target.base_offset(device)[1] / target.dimension(1).tile;
    if (row != column) throw RuntimeError("fftwf_mpi transposes between rows and columns in the same order");
  }
}

using Floats = std::unique_ptr<float, decltype(&fftwf_free)>;

class Transpose {
 public:
  Transpose(const Problem& problem, MPI_Comm comm) : ranks_(ordered_ranks(problem, comm)) {
    const auto elements = static_cast<std::size_t>(require_typed(problem).source().local_size());
    const std::ptrdiff_t extents[] = {require_typed(problem).source().dimension(0).global,
                                      require_typed(problem).source().dimension(1).global};
    std::ptrdiff_t unused[4];
    const std::ptrdiff_t needed =
        fftwf_mpi_local_size_many_transposed(2, extents, 1, FFTW_MPI_DEFAULT_BLOCK, FFTW_MPI_DEFAULT_BLOCK,
                                             ranks_.get(), &unused[0], &unused[1], &unused[2], &unused[3]);
    if (needed > require_typed(problem).source().local_size())
      throw RuntimeError("fftwf_mpi needs more room than the tile has");
    // Planning overwrites what it works on; plans then run between any buffers of the same alignment.
    const Floats in(fftwf_alloc_real(elements), fftwf_free);
    const Floats out(fftwf_alloc_real(elements), fftwf_free);
    if (in && out) {
      plan_ = fftwf_mpi_plan_many_transpose(extents[0], extents[1], 1, FFTW_MPI_DEFAULT_BLOCK, FFTW_MPI_DEFAULT_BLOCK,
                                            in.get(), out.get(), ranks_.get(),
                                            FFTW_MEASURE | FFTW_PRESERVE_INPUT | FFTW_MPI_TRANSPOSED_OUT);
    }
    if (plan_ == nullptr) throw RuntimeError("fftwf_mpi finds no plan");
  }
  Transpose(const Transpose&) = delete;
  Transpose& operator=(const Transpose&) = delete;
  ~Transpose() { fftwf_destroy_plan(plan_); }

  void run(const std::byte* source, std::byte* target) const {
    // Read only, since the input is preserved; tiles are aligned as FFTW's own memory.
    auto* from = reinterpret_cast<float*>(const_cast<std::byte*>(source));  // NOLINT(*-const-cast)
    fftwf_mpi_execute_r2r(plan_, from, reinterpret_cast<float*>(target));
  }

 private:
  // The first rank has the first rows.
  static mpi::Communicator ordered_ranks(const Problem& problem, MPI_Comm comm) {
    const mpi::Communicator world = mpi::Communicator::duplicate(comm);
    const std::int64_t row = require_typed(problem).source().base_offset(world.rank())[0];
    return world.split(0, static_cast<int>(row / require_typed(problem).source().dimension(0).tile));
  }

  const mpi::Communicator ranks_;
  fftwf_plan plan_ = nullptr;
};

}  // namespace

evaluation::Contender make_fftw_peer(const Problem& problem, MPI_Comm comm) {
  return make_peer("fftw", problem, comm, [problem, comm]() -> TileMover {
    require_expressible(problem);
    fftwf_mpi_init();
    const auto transpose = std::make_shared<Transpose>(problem, comm);
    return [transpose](const std::byte* source, std::byte* target) { transpose->run(source, target); };
  });
}

}  // namespace retile::bench
