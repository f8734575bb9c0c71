#include "bench/mpi/peers/scalapack.h"

#include <algorithm>
#include <array>
#include <climits>
#include <memory>
#include <vector>

#include "bench/mpi/scalapack_calls.h"
#include "retile/base/error.h"

namespace retile::bench {
namespace {

// How ScaLAPACK deals a dimension out: blocks in turn.
struct DealtDimension {
  std::int64_t size = 0;
  std::int64_t block = 0;
  int processes = 1;
  std::vector<AxisPart> axes;  // along which they lie, minor to major
  int first = 0;               // process of the first block
};

void require(bool holds, const char* message) {
  if (!holds) throw RuntimeError(std::string("p?gemr2d moves ") + message);
}

// One block for each process, or blocks x processes x elements of a block, cut in the middle.
DealtDimension dealt(const std::vector<Factor>& factors) {
  if (const Factor& blocks = factors.front(); blocks.block > 0) {
    require(blocks.block <= INT_MAX, "blocks of fewer than 2^31 elements");
    return {blocks.size, blocks.block, static_cast<int>(tile_count(blocks.axes)), blocks.axes,
            static_cast<int>(blocks.first)};
  }
  require(factors.front().tiles.empty(), "blocks in turn");
  DealtDimension dimension{1, 1, 1, {}, 0};
  const Factor* cut = nullptr;
  for (const Factor& factor : factors) {
    dimension.size *= factor.size;
    if (cut != nullptr) dimension.block *= factor.size;
    if (factor.axes.empty()) continue;
    require(cut == nullptr, "dimensions that are cut once");
    cut = &factor;
  }
  if (cut == nullptr) return {dimension.size, dimension.size, 1, {}, 0};
  const std::int64_t count = tile_count(cut->axes);
  require(cut == &factors.front() || cut->size == count, "blocks in turn");
  dimension.block *= (cut->size + count - 1) / count;
  dimension.processes = static_cast<int>(count);
  dimension.axes = cut->axes;
  return dimension;
}

void require_expressible(const Problem& problem) {
  require(problem.source().rank() == 2, "matrices");
  require(problem.element_type() == ElementType::f32 || problem.element_type() == ElementType::f64,
          "elements of f32 or f64");
  for (const Layout* layout : {&problem.source(), &problem.target()}) {
    const auto cuts = layout->cuts();
    require(cuts && cuts->devices.empty() && cuts->partial.empty() && cuts->rule == UnevenRule::ceiling &&
                cuts->halo.empty() && cuts->order.empty(),
            "matrices that are cut along a mesh by ceilings");
    std::int64_t processes = 1;
    for (const std::vector<Factor>& factors : cuts->view) processes *= dealt(factors).processes;
    require(processes == problem.device_count(), "layouts without replicas");
    require(layout->local_size() <= INT_MAX, "tiles of fewer than 2^31 elements");
  }
}

// A layout as blocks on a grid of processes. ScaLAPACK's matrices are column-major: a row-major array is its transpose,
// whose rows are the array's last dimension.
class BlockLayout {
 public:
  BlockLayout(const MeshLayout& cuts, MPI_Comm comm) : handle_(Csys2blacs_handle(comm)) {
    const DealtDimension rows = dealt(cuts.view[1]);
    const DealtDimension columns = dealt(cuts.view[0]);
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    std::vector<int> ranks(static_cast<std::size_t>(rows.processes) * static_cast<std::size_t>(columns.processes));
    for (Device device = 0; device < cuts.mesh.device_count(); ++device) {
      const std::int64_t place = coordinate_along(cuts.mesh, rows.axes, device) +
                                 coordinate_along(cuts.mesh, columns.axes, device) * rows.processes;
      ranks[static_cast<std::size_t>(place)] = static_cast<int>(device);
    }
    context_ = handle_;
    Cblacs_gridmap(&context_, ranks.data(), rows.processes, rows.processes, columns.processes);
    std::int64_t leading = 1;  // this rank's rows
    for (const Factor& factor : cuts.view[1]) {
      leading *= held_size(factor, cuts.rule, coordinate_along(cuts.mesh, factor.axes, rank));
    }
    constexpr int dense = 1;
    descriptor_ = {dense,
                   context_,
                   static_cast<int>(rows.size),
                   static_cast<int>(columns.size),
                   static_cast<int>(rows.block),
                   static_cast<int>(columns.block),
                   rows.first,
                   columns.first,
                   std::max(1, static_cast<int>(leading))};
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
  Layouts(const Problem& problem, MPI_Comm comm)
      : source(*problem.source().cuts(), comm), target(*problem.target().cuts(), comm) {}
  BlockLayout source;
  BlockLayout target;
};

template <typename Element, typename Routine>
TileMover mover(const std::shared_ptr<Layouts>& layouts, Routine routine) {
  return [layouts, routine](const std::byte* source, std::byte* target) {
    // Read only, but the interface does not say so. Tiles are aligned for their elements.
    auto* from = reinterpret_cast<Element*>(const_cast<std::byte*>(source));  // NOLINT(*-const-cast)
    auto* to = reinterpret_cast<Element*>(target);
    routine(layouts->source.rows(), layouts->source.columns(), from, 1, 1, layouts->source.descriptor(), to, 1, 1,
            layouts->target.descriptor(), layouts->source.context());
  };
}

}  // namespace

evaluation::Contender make_scalapack_peer(const Problem& problem, MPI_Comm comm) {
  return make_peer("scalapack", problem, comm, [problem, comm]() -> TileMover {
    require_expressible(problem);
    const auto layouts = std::make_shared<Layouts>(problem, comm);
    if (problem.element_type() == ElementType::f32) return mover<float>(layouts, Cpsgemr2d);
    return mover<double>(layouts, Cpdgemr2d);
  });
}

}  // namespace retile::bench
