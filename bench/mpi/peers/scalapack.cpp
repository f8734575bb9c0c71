#include "bench/mpi/peers/scalapack.h"

#include <array>
#include <climits>
#include <memory>
#include <vector>

#include "retile/base/error.h"

// The C interfaces of BLACS and the redistribution routines come without a header.
extern "C" {
int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
void Cblacs_gridmap(int* context, int* ranks, int leading, int rows, int columns);
void Cblacs_gridexit(int context);
void Cpsgemr2d(int rows, int columns, float* a, int ia, int ja, int* a_descriptor, float* b, int ib, int jb,
               int* b_descriptor, int context);
void Cpdgemr2d(int rows, int columns, double* a, int ia, int ja, int* a_descriptor, double* b, int ib, int jb,
               int* b_descriptor, int context);
}

namespace retile::bench {
namespace {

void require_expressible(const Problem& problem) {
  const auto require = [](bool holds, const char* message) {
    if (!holds) throw RuntimeError(std::string("p?gemr2d moves ") + message);
  };
  require(problem.source().rank() == 2, "matrices");
  require(problem.element_type() == ElementType::f32 || problem.element_type() == ElementType::f64,
          "elements of f32 or f64");
  const std::int64_t devices = problem.device_count();
  const TypedProblem ends = require_typed(problem);
  for (const DistributedType* type : {&ends.source(), &ends.target()}) {
    require(type->local_size() * devices == type->global_size(), "layouts without replicas");
    require(type->local_size() <= INT_MAX, "tiles of fewer than 2^31 elements");
  }
}

// A layout as one block on each process of a grid. ScaLAPACK's matrices are column-major: a row-major array is its
// transpose, whose rows are the array's last dimension.
class BlockLayout {
 public:
  BlockLayout(const DistributedType& type, MPI_Comm comm) : handle_(Csys2blacs_handle(comm)) {
    const Shape global = type.global_shape();
    const Shape local = type.local_shape();
    const auto rows = static_cast<int>(global[1] / local[1]);
    const auto columns = static_cast<int>(global[0] / local[0]);
    std::vector<int> ranks(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (Device device = 0; device < type.mesh().device_count(); ++device) {
      const Shape corner = type.base_offset(device);
      const std::int64_t place = corner[1] / local[1] + corner[0] / local[0] * rows;
      ranks[static_cast<std::size_t>(place)] = static_cast<int>(device);
    }
    context_ = handle_;
    Cblacs_gridmap(&context_, ranks.data(), rows, rows, columns);
    constexpr int dense = 1;
    descriptor_ = {dense,
                   context_,
                   static_cast<int>(global[1]),
                   static_cast<int>(global[0]),
                   static_cast<int>(local[1]),
                   static_cast<int>(local[0]),
                   0,
                   0,
                   static_cast<int>(local[1])};
  }
  BlockLayout(const BlockLayout&) = delete;
  BlockLayout& operator=(const BlockLayout&) = delete;
  ~BlockLayout() {
    Cblacs_gridexit(context_);
    Cfree_blacs_system_handle(handle_);
  }

  int rows() const { return descriptor_[2]; }
  int columns() const { return descriptor_[3]; }
  int context() const { return context_; }
  int* descriptor() { return descriptor_.data(); }

 private:
  int handle_;
  int context_ = 0;
  std::array<int, 9> descriptor_{};
};

struct Layouts {
  BlockLayout source;
  BlockLayout target;
};

template <typename Element, typename Routine>
TileMover mover(std::shared_ptr<Layouts> layouts, Routine routine) {
  return [layouts, routine](const std::byte* source, std::byte* target) {
    // Read only, but the interface does not say so. Tiles are aligned for their elements.
    auto* from = reinterpret_cast<Element*>(const_cast<std::byte*>(source));
    auto* to = reinterpret_cast<Element*>(target);
    routine(layouts->source.rows(), layouts->source.columns(), from, 1, 1, layouts->source.descriptor(), to, 1, 1,
            layouts->target.descriptor(), layouts->source.context());
  };
}

}  // namespace

evaluation::Contender make_scalapack_peer(const Problem& problem, MPI_Comm comm) {
  return make_peer("scalapack", problem, comm, [problem, comm]() -> TileMover {
    require_expressible(problem);
    const TypedProblem ends = require_typed(problem);
    auto layouts =
        std::shared_ptr<Layouts>(new Layouts{BlockLayout(ends.source(), comm), BlockLayout(ends.target(), comm)});
    if (problem.element_type() == ElementType::f32) return mover<float>(std::move(layouts), Cpsgemr2d);
    return mover<double>(std::move(layouts), Cpdgemr2d);
  });
}

}  // namespace retile::bench
