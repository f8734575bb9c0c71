#include "bench/mpi/packed_alltoallv.h"

#include <cstring>
#include <utility>

#include "retile/base/list.h"

namespace retile::bench {
namespace {

Box tile_of(const Layout& layout, Device device) { return layout.placement().box(device); }

// Calls visit(place in the tile, bytes) for each row of a box along the last dimension, in order.
template <typename Visit>
void for_each_row(const Box& tile, const Box& box, std::int64_t element_size, Visit visit) {
  const std::int64_t columns = tile.hi[1] - tile.lo[1];
  const std::int64_t depth = tile.hi[2] - tile.lo[2];
  const auto bytes = static_cast<std::size_t>((box.hi[2] - box.lo[2]) * element_size);
  for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
    for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j) {
      const std::int64_t place = ((i - tile.lo[0]) * columns + j - tile.lo[1]) * depth + box.lo[2] - tile.lo[2];
      visit(static_cast<std::size_t>(place * element_size), bytes);
    }
  }
}

}  // namespace

PackedAlltoallv::PackedAlltoallv(const Problem& problem, const mpi::Communicator& world)
    : element_size_(bytes_of(problem.element_type())),
      members_(world.split(static_cast<int>(tile_of(problem.source(), world.rank()).lo[2]), world.rank())) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(members_.size()));
  members_.gather(world.rank(), ranks);
  const Box own_source = tile_of(problem.source(), world.rank());
  const Box own_target = tile_of(problem.target(), world.rank());
  std::vector<Box> sent;
  std::vector<Box> received;
  for (const std::int64_t rank : ranks) {
    sent.push_back(intersect(own_source, tile_of(problem.target(), rank)).value_or(Box{{0, 0, 0}, {0, 0, 0}}));
    received.push_back(intersect(tile_of(problem.source(), rank), own_target).value_or(Box{{0, 0, 0}, {0, 0, 0}}));
  }
  sent_ = make_side(own_source, std::move(sent));
  received_ = make_side(own_target, std::move(received));
}

PackedAlltoallv::Side PackedAlltoallv::make_side(Box tile, std::vector<Box> boxes) const {
  Side side{std::move(tile), std::move(boxes), {}, {}, {}};
  std::int64_t bytes = 0;
  for (const Box& box : side.boxes) {
    side.displacements.push_back(static_cast<int>(bytes));
    side.counts.push_back(static_cast<int>(volume(box) * element_size_));
    bytes += side.counts.back();
  }
  side.buffer.resize(static_cast<std::size_t>(bytes));
  return side;
}

void PackedAlltoallv::run(const std::byte* source, std::byte* target) {
  std::byte* packed = sent_.buffer.data();
  for (const Box& box : sent_.boxes) {
    for_each_row(sent_.tile, box, element_size_, [&](std::size_t place, std::size_t bytes) {
      std::memcpy(packed, source + place, bytes);
      packed += bytes;
    });
  }
  mpi::check(MPI_Alltoallv(sent_.buffer.data(), sent_.counts.data(), sent_.displacements.data(), MPI_BYTE,
                           received_.buffer.data(), received_.counts.data(), received_.displacements.data(), MPI_BYTE,
                           members_.get()),
             "MPI_Alltoallv");
  const std::byte* next = received_.buffer.data();
  for (const Box& box : received_.boxes) {
    for_each_row(received_.tile, box, element_size_, [&](std::size_t place, std::size_t bytes) {
      std::memcpy(target + place, next, bytes);
      next += bytes;
    });
  }
}

}  // namespace retile::bench
