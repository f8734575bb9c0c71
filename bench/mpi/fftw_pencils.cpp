#include "bench/mpi/fftw_pencils.h"

#include <fftw3-mpi.h>

#include <algorithm>
#include <cstring>

#include "retile/base/error.h"

namespace retile::bench {
namespace {

using Doubles = std::unique_ptr<double, decltype(&fftw_free)>;

Doubles allocate(std::ptrdiff_t count) {
  return {fftw_alloc_real(static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, count))), fftw_free};
}

// In tiles by ceilings, as FFTW cuts.
std::ptrdiff_t tile_size(std::int64_t size, int parts) { return (size + parts - 1) / parts; }

}  // namespace

struct FftwPencils::State {
  mpi::Communicator members;
  Doubles in{nullptr, fftw_free};
  Doubles out{nullptr, fftw_free};
  fftw_plan plan = nullptr;
};

// Both ends have the transpose's rows cut and its columns whole, or the other way round: in memory as an array that is
// not transposed.
FftwPencils::FftwPencils(const Problem& problem, const mpi::Communicator& world) {
  fftw_mpi_init();
  const Box source = problem.source().placement().box(world.rank());
  state_ = std::make_unique<State>(State{world.split(static_cast<int>(source.lo[2]), static_cast<int>(source.lo[1])),
                                         {nullptr, fftw_free},
                                         {nullptr, fftw_free},
                                         nullptr});
  const Shape shape = problem.source().global_shape();
  const int parts = state_->members.size();
  const std::ptrdiff_t numbers = 2 * (source.hi[2] - source.lo[2]);  // of a row of complex ones
  const std::ptrdiff_t extents[] = {shape[1], shape[0]};
  const std::ptrdiff_t blocks[] = {tile_size(shape[1], parts), tile_size(shape[0], parts)};
  std::ptrdiff_t sizes[4];
  const std::ptrdiff_t needed = fftw_mpi_local_size_many_transposed(
      2, extents, numbers, blocks[0], blocks[1], state_->members.get(), &sizes[0], &sizes[1], &sizes[2], &sizes[3]);
  state_->in = allocate(needed);
  state_->out = allocate(needed);
  state_->plan = fftw_mpi_plan_many_transpose(extents[0], extents[1], numbers, blocks[0], blocks[1], state_->in.get(),
                                              state_->out.get(), state_->members.get(),
                                              FFTW_MEASURE | FFTW_PRESERVE_INPUT | FFTW_MPI_TRANSPOSED_IN);
  if (state_->plan == nullptr) throw RuntimeError("FFTW finds no plan for the pencils");
}

FftwPencils::~FftwPencils() { fftw_destroy_plan(state_->plan); }

// Between tiles that are aligned as FFTW's own memory, which those of the benchmark are; the input is preserved.
void FftwPencils::run(const std::byte* source, std::byte* target) {
  auto* from = reinterpret_cast<double*>(const_cast<std::byte*>(source));  // NOLINT(*-const-cast)
  fftw_mpi_execute_r2r(state_->plan, from, reinterpret_cast<double*>(target));
}

}  // namespace retile::bench
