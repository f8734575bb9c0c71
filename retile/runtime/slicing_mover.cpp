#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "retile/base/error.h"
#include "retile/runtime/mover.h"
#include "retile/runtime/numbers.h"

namespace retile::runtime {
namespace {

using language::ArrayType;
using language::Program;

// The devices' numbers with their coordinates along the axes set to 0.
Device without_axes(const Mesh& mesh, const std::vector<int>& axes, Device device) {
  Device base = device;
  for (const int axis : axes) base -= mesh.coordinate(device, mesh.whole(axis)) * mesh.stride(mesh.whole(axis));
  return base;
}

class SlicingMover final : public Mover {
 public:
  SlicingMover(const Program& program, MemoryMeter& meter)
      : mesh_(program.mesh), meter_(meter), devices_(static_cast<std::size_t>(mesh_.device_count())) {
    std::iota(devices_.begin(), devices_.end(), Device{0});
  }

  const std::vector<Device>& devices() const override { return devices_; }

  SharedArray move(const language::Movements& /*movements*/, const ArrayType& from, const ArrayType& to,
                   SharedArray operand) override {
    TileBuffers tiles = from.sums == to.sums ? cut_anew(from, to, *operand) : add_up(from, to, *operand);
    return std::make_shared<Array>(meter_, bytes_of(to), std::move(tiles));
  }

  std::optional<Diagnostic> find_disagreement(const language::Value&, const Array&) override { return std::nullopt; }

 private:
  TileBuffers cut_anew(const ArrayType& from, const ArrayType& to, const Array& operand) const {
    const std::int64_t size = bytes_of(from.element);
    const Shape& global = from.placement.global_shape();
    Tile whole = allocate_tile(box_at(Shape(global.size(), 0), global), size);
    for (const Device device : devices_) {
      const Tile tile{from.placement.box(device), operand.tiles[static_cast<std::size_t>(device)]};
      copy_box(tile, whole, tile.box, size);
    }
    TileBuffers tiles;
    for (Tile& tile : slice_array(whole, to.placement, size)) tiles.push_back(std::move(tile.bytes));
    return tiles;
  }

  // Device numbers are row-major: in ascending order, those of a sum are in order of their coordinates.
  TileBuffers add_up(const ArrayType& from, const ArrayType& to, const Array& operand) const {
    std::vector<int> summed;
    std::set_difference(from.sums.begin(), from.sums.end(), to.sums.begin(), to.sums.end(), std::back_inserter(summed));
    std::map<Device, Buffer> totals;
    for (const Device device : devices_) {
      const Buffer& tile = operand.tiles[static_cast<std::size_t>(device)];
      const auto [total, is_first] = totals.try_emplace(without_axes(mesh_, summed, device), tile);
      if (!is_first) add_to(total->second, tile, from.element);
    }
    TileBuffers tiles;
    for (const Device device : devices_) tiles.push_back(totals.at(without_axes(mesh_, summed, device)));
    return tiles;
  }

  static void add_to(Buffer& total, const Buffer& tile, ElementType element) {
    with_number(element, [&]<typename Number>(Number) {
      for (std::size_t i = 0; i < total.size(); i += sizeof(Number)) {
        Number a{};
        Number b{};
        std::memcpy(&a, total.data() + i, sizeof a);
        std::memcpy(&b, tile.data() + i, sizeof b);
        a = add(a, b);
        std::memcpy(total.data() + i, &a, sizeof a);
      }
    });
  }

  const Mesh mesh_;
  MemoryMeter& meter_;
  std::vector<Device> devices_;
};

}  // namespace

std::unique_ptr<Mover> make_slicing_mover(const Program& program, MemoryMeter& meter) {
  return std::make_unique<SlicingMover>(program, meter);
}

}  // namespace retile::runtime
