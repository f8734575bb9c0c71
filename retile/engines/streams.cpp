#include "retile/engines/streams.h"

#include <sys/mman.h>

#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

DimensionOrder row_major(const Shape& extent) {
  DimensionOrder order(extent.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

}  // namespace

StreamStatistics PreparedStreams::execute_rounds(std::span<const std::byte* const>, std::span<std::byte* const>,
                                                 const RoundDone&) {
  throw RuntimeError("this engine does not move in place");
}

void PreparedStreams::give_back(const std::byte* pages, std::size_t bytes) {
  void* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
  if (madvise(memory, bytes, MADV_DONTNEED) != 0) throw RuntimeError("the system does not take pages back");
}

std::int64_t PieceShape::bytes() const { return product(extent) * element_size; }

BoxCopy PieceShape::copy() const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, from), TileLayout(box, to), box, element_size};
}

BoxPacking PieceShape::packing() const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, from), box, element_size, row_major(extent)};
}

BoxPacking PieceShape::unpacking() const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, to), box, element_size, row_major(extent)};
}

}  // namespace retile
