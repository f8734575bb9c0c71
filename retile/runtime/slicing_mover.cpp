#include <algorithm>
#include <cstring>
#include <map>

#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/memory/tile.h"
#include "retile/runtime/mover.h"
#include "retile/runtime/numbers.h"

namespace retile::runtime {
namespace {

using language::ArrayType;
using language::Program;

Shape coordinates_along(const Mesh& mesh, const std::vector<AxisPart>& parts, Device device) {
  Shape coordinates;
  for (const AxisPart& part : parts) coordinates.push_back(mesh.coordinate(device, part));
  return coordinates;
}

// The device's number with its coordinates along the parts set to 0.
Device without_parts(const Mesh& mesh, const std::vector<AxisPart>& parts, Device device) {
  Device base = device;
  for (const AxisPart& part : parts) base -= mesh.coordinate(device, part) * mesh.stride(part);
  return base;
}

class SlicingMover final : public Mover {
 public:
  SlicingMover(const Program& program, MemoryMeter& meter)
      : mesh_(program.mesh), meter_(meter), devices_(all_devices(mesh_.device_count())) {}

  const std::vector<Device>& devices() const override { return devices_; }

  SharedArray move(const Movement& /*movement*/, const ArrayType& from, const ArrayType& to,
                   SharedArray operand) override {
    TileBuffers combined;
    const TileBuffers* tiles = &operand->tiles;
    if (from.partial != to.partial) {
      combined = combine(from, to, *tiles);
      tiles = &combined;
    }
    return std::make_shared<Array>(meter_, bytes_of(to), cut_anew(from, to, *tiles));
  }

  std::optional<Diagnostic> find_disagreement(const language::Value&, const Array&) override { return std::nullopt; }

 private:
  // Each of the arrays that are parts of a sum.
  TileBuffers cut_anew(const ArrayType& from, const ArrayType& to, const TileBuffers& tiles) const {
    std::map<Shape, std::vector<Device>> arrays;
    for (const Device device : devices_) arrays[coordinates_along(mesh_, to.partial, device)].push_back(device);
    TileBuffers results(tiles.size());
    for (const auto& [part, devices] : arrays) cut_anew(from, to, tiles, devices, results);
    return results;
  }

  static void cut_anew(const ArrayType& from, const ArrayType& to, const TileBuffers& tiles,
                       const std::vector<Device>& devices, TileBuffers& results) {
    const std::int64_t size = bytes_of(from.element);
    const Shape& global = from.placement.global_shape();
    Tile whole = allocate_tile(box_at(Shape(global.size(), 0), global), size);
    for (const Device device : devices) {
      for (const Part& part : from.placement.parts(device)) {
        copy_box(at(tiles, device).data(), retile::layout_of(part, size), whole.bytes.data(), whole.box, part.box,
                 size);
      }
    }
    for (const Device device : devices) {
      Buffer& tile = at(results, device);
      tile = Buffer(static_cast<std::size_t>(to.placement.size(device) * size));
      for (const Part& part : to.placement.parts(device)) {
        copy_box(whole.bytes.data(), whole.box, tile.data(), retile::layout_of(part, size), part.box, size);
      }
    }
  }

  // Device numbers are row-major: in ascending order, those of a sum are in order of their coordinates.
  TileBuffers combine(const ArrayType& from, const ArrayType& to, const TileBuffers& operands) const {
    std::vector<AxisPart> combined;
    for (const AxisPart& part : from.partial) {
      if (std::find(to.partial.begin(), to.partial.end(), part) == to.partial.end()) combined.push_back(part);
    }
    std::map<Device, Buffer> totals;
    for (const Device device : devices_) {
      const Buffer& tile = at(operands, device);
      const auto [total, is_first] = totals.try_emplace(without_parts(mesh_, combined, device), tile);
      if (!is_first) combine_with(total->second, tile, from);
    }
    TileBuffers tiles;
    for (const Device device : devices_) tiles.push_back(totals.at(without_parts(mesh_, combined, device)));
    return tiles;
  }

  static void combine_with(Buffer& total, const Buffer& tile, const ArrayType& type) {
    with_number(type.element, [&]<typename Number>(Number) {
      for (std::size_t i = 0; i < total.size(); i += sizeof(Number)) {
        Number a{};
        Number b{};
        std::memcpy(&a, total.data() + i, sizeof a);
        std::memcpy(&b, tile.data() + i, sizeof b);
        a = type.reduction == Reduction::sum   ? add(a, b)
            : type.reduction == Reduction::max ? larger(a, b)
                                               : smaller(a, b);
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
