#include "tests/support/strided_memory.h"

#include <utility>

#include "retile/base/mixing.h"

namespace retile::test {
namespace {

constexpr std::int64_t margin = 70;  // bytes on both sides; no multiple of anything

}  // namespace

Strides random_strides(RandomProblems& random, const Box& box, std::int64_t element_size) {
  const std::vector<std::int64_t> gaps{0, 0, 0, 1, 4, 64};  // bytes
  Strides strides(box.lo.size());
  std::int64_t stride = element_size;
  const bool is_plain = random.number(3) == 0;  // packed, in any order
  for (const std::int64_t dimension : random.permutation(strides.size())) {
    const auto i = static_cast<std::size_t>(dimension);
    if (!is_plain) stride += random.pick(gaps);
    strides[i] = !is_plain && random.number(4) == 0 ? -stride : stride;
    stride *= box.hi[i] - box.lo[i] + (is_plain ? 0 : static_cast<std::int64_t>(random.number(3)));
  }
  return strides;
}

StridedMemory::StridedMemory(TileLayout layout, std::int64_t element_size, std::uint64_t seed)
    : layout_(std::move(layout)), element_size_(element_size) {
  const Reach reach = reach_of(layout_, element_size).value();
  first_ = static_cast<std::size_t>(margin - reach.begin);
  bytes_.resize(static_cast<std::size_t>(reach.end - reach.begin + 2 * margin));
  for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(mix_bits(seed + i));
  before_ = bytes_;
}

void StridedMemory::put(const Tile& tile) {
  copy_box(tile.bytes.data(), tile.box, first(), layout_, layout_.box, element_size_);
  before_ = bytes_;
}

Tile StridedMemory::take() const {
  Tile tile = allocate_tile(layout_.box, element_size_);
  copy_box(first(), layout_, tile.bytes.data(), tile.box, tile.box, element_size_);
  return tile;
}

bool StridedMemory::is_unchanged_around_elements() const {
  std::vector<std::byte> expected = before_;
  copy_box(first(), layout_, expected.data() + first_, layout_, layout_.box, element_size_);
  return bytes_ == expected;
}

}  // namespace retile::test
