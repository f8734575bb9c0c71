#include "retile/types/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/types/text.h"
#include "tests/support/problems.h"

namespace retile {
namespace {

using nlohmann::json;
using test::RandomProblems;
using ::testing::ElementsAre;

Mesh mesh_of(const Shape& sizes) {
  std::vector<Axis> axes;
  for (const std::int64_t size : sizes) axes.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
  return Mesh(std::move(axes));
}

std::vector<std::int64_t> lengths(std::int64_t size, const std::vector<AxisPart>& axes, UnevenRule rule) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < tile_count(axes); ++i) result.push_back(cut_interval(size, axes, rule, i).size());
  return result;
}

TEST(UnevenRules, differ_where_sizes_do_not_divide) {
  const Mesh mesh = mesh_of({2, 2});
  const std::vector<AxisPart> axes{mesh.whole(1), mesh.whole(0)};
  EXPECT_THAT(lengths(5, axes, UnevenRule::ceiling), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(lengths(5, axes, UnevenRule::nested), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(lengths(5, axes, UnevenRule::balanced), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(lengths(6, axes, UnevenRule::ceiling), ElementsAre(2, 2, 2, 0));
  EXPECT_THAT(lengths(6, axes, UnevenRule::nested), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(lengths(6, axes, UnevenRule::balanced), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(lengths(6, axes, UnevenRule::last), ElementsAre(1, 1, 2, 2));
  for (const UnevenRule rule : {UnevenRule::ceiling, UnevenRule::nested, UnevenRule::balanced, UnevenRule::last}) {
    EXPECT_THAT(lengths(8, axes, rule), ElementsAre(2, 2, 2, 2));
    EXPECT_THAT(lengths(0, axes, rule), ElementsAre(0, 0, 0, 0));
  }
}

TEST(UnevenRules, have_names) {
  for (const UnevenRule rule : {UnevenRule::ceiling, UnevenRule::nested, UnevenRule::balanced, UnevenRule::last}) {
    EXPECT_EQ(find_uneven_rule(name_of(rule)), rule);
  }
  EXPECT_EQ(find_uneven_rule("floor"), std::nullopt);
}

// tests/data/dtensor_tiles.jsonl: the tiles that the DTensor of PyTorch 2.15 gives each device, row-major over the
// mesh. "shard" lists the mesh's dimensions that cut an array's only dimension, "placements" has an entry for each of
// them.
Layout dtensor_layout(const json& record) {
  MeshLayout layout{mesh_of(record.at("mesh").get<Shape>()), {}, UnevenRule::nested, {}, Reduction::sum, {}};
  for (const std::int64_t size : record.at("shape").get<Shape>()) layout.view.push_back({{size, {}}});
  // Major to minor.
  const auto cut = [&](std::size_t dimension, int axis) {
    std::vector<AxisPart>& axes = layout.view[dimension].front().axes;
    axes.insert(axes.begin(), layout.mesh.whole(axis));
  };
  for (const int axis : record.value("shard", std::vector<int>{})) cut(0, axis);
  const auto placements = record.value("placements", std::vector<std::string>{});
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis] != "R") cut(static_cast<std::size_t>(placements[axis][1] - '0'), static_cast<int>(axis));
  }
  return Layout(std::move(layout));
}

TEST(UnevenRules, nested_ceilings_are_those_of_dtensor) {
  std::size_t tiles = 0;
  for (const SourceText& line : test::data_lines("dtensor_tiles.jsonl")) {
    const json record = json::parse(line.text);
    const Placement placement = dtensor_layout(record).placement();
    ASSERT_EQ(record.at("tiles").size(), static_cast<std::size_t>(placement.device_count())) << line.text;
    for (Device device = 0; device < placement.device_count(); ++device) {
      const json& tile = record.at("tiles").at(static_cast<std::size_t>(device));
      std::vector<Part> expected{packed_part({})};
      Box& box = expected.front().box;
      for (const json& interval : record.contains("shard") ? json::array({tile}) : tile) {
        box.lo.push_back(interval.at(0).get<std::int64_t>());
        box.hi.push_back(interval.at(1).get<std::int64_t>());
      }
      expected = volume(box) == 0 ? std::vector<Part>{} : std::vector<Part>{packed_part(box)};
      ASSERT_EQ(placement.parts(device), expected) << line.text << " device " << device;
      ++tiles;
    }
  }
  EXPECT_EQ(tiles, 2565U);
}

// --- All small layouts, against the rules as one would write them by hand.

// The tile of the device whose coordinates along the axes, major to minor, are these.
Interval tile_by_hand(std::int64_t size, const Shape& counts, const Shape& coordinates, UnevenRule rule) {
  if (rule == UnevenRule::nested) {
    Interval tile{0, size};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::int64_t length = (tile.size() + counts[i] - 1) / counts[i];
      const std::int64_t lo = tile.lo + length * coordinates[i];
      tile = {std::min(lo, tile.hi), std::min(lo + length, tile.hi)};
    }
    return tile;
  }
  std::int64_t number = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) number = number * counts[i] + coordinates[i];
  const std::int64_t count = product(counts);
  std::int64_t lo = 0;
  for (std::int64_t i = 0;; ++i) {
    const std::int64_t left = size - lo;
    const std::int64_t length =
        rule == UnevenRule::ceiling ? std::min(left, (size + count - 1) / count) : (left + count - i - 1) / (count - i);
    if (i == number) return {lo, lo + length};
    lo += length;
  }
}

Interval tile_by_hand(const MeshLayout& layout, const Factor& factor, Device index) {
  Shape counts;
  Shape coordinates;
  for (auto axis = factor.axes.rbegin(); axis != factor.axes.rend(); ++axis) {
    counts.push_back(axis->size);
    coordinates.push_back(layout.mesh.coordinate(index, *axis));
  }
  return tile_by_hand(factor.size, counts, coordinates, layout.rule);
}

// The axes in lists for the dimensions, in every order; what is left out cuts nothing.
void for_each_dealing(const std::vector<AxisPart>& axes, std::vector<std::vector<AxisPart>>& lists,
                      const std::function<void()>& visit, std::size_t next = 0) {
  if (next == axes.size()) return visit();
  for_each_dealing(axes, lists, visit, next + 1);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (std::size_t at = 0; at <= lists[i].size(); ++at) {
      lists[i].insert(lists[i].begin() + static_cast<std::ptrdiff_t>(at), axes[next]);
      for_each_dealing(axes, lists, visit, next + 1);
      lists[i].erase(lists[i].begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

void for_each_shape(std::size_t rank, std::int64_t most, const std::function<void(const Shape&)>& visit) {
  Shape shape(rank);
  while (true) {
    visit(shape);
    std::size_t i = 0;
    while (i < rank && ++shape[i] > most) shape[i++] = 0;
    if (i == rank) return;
  }
}

void expect_layout(const MeshLayout& cuts) {
  const Layout layout(cuts);
  SCOPED_TRACE(to_string(layout) + " on " + to_string(cuts.mesh));
  const Placement placement = layout.placement();
  std::map<Shape, std::int64_t> held;  // by corner: elements of all devices
  std::int64_t largest = 0;
  std::int64_t all = 0;
  for (Device device = 0; device < placement.device_count(); ++device) {
    Box box;
    for (const std::vector<Factor>& factors : cuts.view) {
      const Interval tile = tile_by_hand(cuts, factors.front(), device);
      box.lo.push_back(tile.lo);
      box.hi.push_back(tile.hi);
    }
    largest = std::max(largest, volume(box));
    all += volume(box);
    held[box.lo] = std::max(held[box.lo], volume(box));
    ASSERT_EQ(placement.parts(device), volume(box) == 0 ? std::vector<Part>{} : std::vector<Part>{packed_part(box)});
  }
  std::int64_t tiles = 1;
  for (const std::vector<Factor>& factors : cuts.view) tiles *= tile_count(factors.front().axes);
  // Distinct boxes make up the array, and every one of its elements has as many holders.
  std::int64_t once = 0;
  for (const auto& [corner, elements] : held) once += elements;
  EXPECT_EQ(once, product(layout.global_shape()));
  EXPECT_EQ(all, once * (cuts.mesh.device_count() / tiles));
  EXPECT_EQ(layout.local_size(), largest);
  EXPECT_EQ(placement.local_size(), largest);
  EXPECT_EQ(parse_layout(to_string(layout), cuts.mesh), layout);
}

TEST(Layouts, cut_unevenly_hold_every_element_once_and_print_back) {
  std::size_t count = 0;
  for (const Shape& sizes : std::vector<Shape>{
           {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {2, 2}, {2, 3}, {3, 2}, {2, 4}, {4, 2}, {1, 3}, {2, 2, 2}}) {
    const Mesh mesh = mesh_of(sizes);
    for (const std::vector<AxisPart>& axes : {mesh.prime_parts(), [&] {
                                                std::vector<AxisPart> whole;
                                                for (int i = 0; i < mesh.axis_count(); ++i)
                                                  whole.push_back(mesh.whole(i));
                                                return whole;
                                              }()}) {
      for (std::size_t rank = 1; rank <= 2; ++rank) {
        std::vector<std::vector<AxisPart>> lists(rank);
        for_each_dealing(axes, lists, [&] {
          for_each_shape(rank, rank == 1 ? 9 : (axes.size() < 3 ? 7 : 5), [&](const Shape& shape) {
            for (const UnevenRule rule : {UnevenRule::ceiling, UnevenRule::nested, UnevenRule::balanced}) {
              MeshLayout layout{mesh, {}, rule, {}, Reduction::sum, {}};
              for (std::size_t i = 0; i < rank; ++i) layout.view.push_back({{shape[i], lists[i]}});
              expect_layout(layout);
              ++count;
            }
          });
        });
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(count, 50'000U);
}

TEST(Layouts, that_a_type_can_say_are_types) {
  const Mesh mesh = mesh_of({2, 3});
  const MeshLayout even{mesh, {{{12, {mesh.whole(1), mesh.whole(0)}}}}, UnevenRule::nested, {}, Reduction::sum, {}};
  ASSERT_NE(Layout(even).type(), nullptr);
  EXPECT_EQ(to_string(*Layout(even).type()), "[2{b,a}12]");
  EXPECT_EQ(Layout(even), Layout(parse_type("[2{b,a}12]", mesh)));
  MeshLayout uneven = even;
  uneven.view[0][0].size = 13;
  EXPECT_EQ(Layout(uneven).type(), nullptr);
  EXPECT_EQ(Layout(uneven).cuts(), uneven);
  MeshLayout elsewhere = even;
  elsewhere.devices = {5, 4, 3, 2, 1, 0};
  EXPECT_EQ(Layout(elsewhere).type(), nullptr);
}

TEST(Layouts, on_some_devices_of_a_world_leave_the_others_empty) {
  const Layout layout = parse_layout("[3{a}5] on [4, 1]", mesh_of({2}));
  EXPECT_EQ(layout.device_count(), 5);
  const Placement placement = layout.placement(6);
  EXPECT_EQ(placement.device_count(), 6);
  EXPECT_EQ(placement.parts(4), std::vector<Part>{packed_part({{0}, {3}})});
  EXPECT_EQ(placement.parts(1), std::vector<Part>{packed_part({{3}, {5}})});
  for (const Device device : {0, 2, 3, 5}) EXPECT_EQ(placement.parts(device), std::vector<Part>{});
}

TEST(Layouts, of_a_single_element_may_live_on_one_device_alone) {
  const Placement placement = parse_layout("[] on [1]", Mesh({})).placement(3);
  EXPECT_EQ(placement.size(0), 0);
  EXPECT_EQ(placement.size(1), 1);
  EXPECT_EQ(placement.size(2), 0);
}

TEST(Layouts, listed_lie_one_box_after_the_other) {
  const Layout layout = parse_layout("[4, 4] boxes {[2:4, 0:4] [0:2, 0:2]; ; [0:2, 2:4]}", mesh_of({2}));
  EXPECT_EQ(layout.device_count(), 3);
  EXPECT_EQ(layout.local_size(), 12);
  const Placement placement = layout.placement();
  EXPECT_THAT(placement.parts(0), ElementsAre(Part{{{2, 0}, {4, 4}}, 0, {4, 1}}, Part{{{0, 0}, {2, 2}}, 8, {2, 1}}));
  EXPECT_TRUE(placement.parts(1).empty());
  EXPECT_FALSE(placement.has_single_boxes());
  EXPECT_EQ(placement.local_shape(), (Shape{2, 4}));
}

// --- Views, against plain sets of indices.

// The indices along the only dimension that each device holds, in the order of its memory.
std::vector<std::vector<std::int64_t>> indices_of(const Placement& placement) {
  std::vector<std::vector<std::int64_t>> all;
  for (Device device = 0; device < placement.device_count(); ++device) {
    std::map<std::int64_t, std::int64_t> by_offset;
    for (const Part& part : placement.parts(device)) {
      for (std::int64_t i = part.box.lo[0]; i < part.box.hi[0]; ++i) {
        by_offset[part.offset + (i - part.box.lo[0]) * part.strides[0]] = i;
      }
    }
    std::vector<std::int64_t>& held = all.emplace_back();
    for (const auto& [offset, index] : by_offset) {
      EXPECT_EQ(offset, static_cast<std::int64_t>(held.size())) << "memory without gaps";
      held.push_back(index);
    }
  }
  return all;
}

// The indices below `size` that belong to each of so many devices.
template <typename Owner>
std::vector<std::vector<std::int64_t>> indices_by(std::int64_t size, std::int64_t devices, Owner owner) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(devices));
  for (std::int64_t i = 0; i < size; ++i) all[static_cast<std::size_t>(owner(i))].push_back(i);
  return all;
}

TEST(Views, say_block_cyclic_layouts) {
  for (const std::int64_t processes : {2, 3, 4}) {
    const Mesh mesh = mesh_of({processes});
    for (const std::int64_t block : {1, 2, 5}) {
      for (const std::int64_t rounds : {1, 2, 3}) {
        const std::string text =
            "[" + std::to_string(rounds) + "*1{a}" + std::to_string(processes) + "*" + std::to_string(block) + "]";
        const Layout layout = parse_layout(text, mesh);
        EXPECT_EQ(to_string(layout), text);
        EXPECT_EQ(layout.local_size(), rounds * block);
        EXPECT_EQ(indices_of(layout.placement()), indices_by(rounds * processes * block, processes,
                                                             [&](std::int64_t i) { return i / block % processes; }))
            << text;
      }
    }
  }
}

TEST(Views, say_strided_shards) {
  // _StridedShard(dim=0, split_factor=3) of 24 over 4.
  const Placement placement = parse_layout("[3*2{a}8]", mesh_of({4})).placement();
  EXPECT_EQ(indices_of(placement), indices_by(24, 4, [](std::int64_t i) { return i % 8 / 2; }));
}

TEST(Views, say_fused_projections) {
  // q, k and v of 4 heads of 2, with two heads on each device.
  const Placement placement = parse_layout("[3*2{a}4*2]", mesh_of({2})).placement();
  EXPECT_EQ(indices_of(placement), indices_by(24, 2, [](std::int64_t i) { return i / 2 % 4 / 2; }));
}

TEST(Views, without_cuts_in_them_are_the_array_as_it_is) {
  const Mesh mesh = mesh_of({2});
  EXPECT_EQ(parse_layout("[2*3, 2{a}4]", mesh).placement(), parse_layout("[6, 2{a}4]", mesh).placement());
  EXPECT_EQ(parse_layout("[1{a}2*3]", mesh).placement(), parse_layout("[3{a}6]", mesh).placement());
}

MeshLayout random_view(RandomProblems& random, const Mesh& mesh, std::size_t rank) {
  const std::vector<UnevenRule> rules{UnevenRule::ceiling, UnevenRule::nested, UnevenRule::balanced};
  MeshLayout layout{mesh, View(rank), random.pick(rules), {}, Reduction::sum, {}};
  for (std::vector<Factor>& factors : layout.view) {
    factors.resize(1 + random.number(3));
    for (Factor& factor : factors) factor.size = 1 + static_cast<std::int64_t>(random.number(4));
  }
  for (const std::int64_t axis : random.permutation(static_cast<std::size_t>(mesh.axis_count()))) {
    std::vector<Factor>& factors = layout.view[random.number(rank)];
    if (random.number(4) > 0) factors[random.number(factors.size())].axes.push_back(mesh.whole(static_cast<int>(axis)));
  }
  return layout;
}

// Which indices of a dimension the device holds: those whose digits it holds.
std::vector<std::int64_t> held_by_hand(const MeshLayout& layout, std::size_t dimension, Device index) {
  std::vector<std::int64_t> held;
  std::int64_t size = 1;
  for (const Factor& factor : layout.view[dimension]) size *= factor.size;
  for (std::int64_t i = 0; i < size; ++i) {
    bool is_held = true;
    std::int64_t rest = i;
    for (auto factor = layout.view[dimension].rbegin(); factor != layout.view[dimension].rend(); ++factor) {
      const Interval tile = tile_by_hand(layout, *factor, index);
      is_held = is_held && rest % factor->size >= tile.lo && rest % factor->size < tile.hi;
      rest /= factor->size;
    }
    if (is_held) held.push_back(i);
  }
  return held;
}

TEST(Views, of_two_dimensions_hold_products_of_indices_in_row_major_order) {
  RandomProblems random(11);
  const std::vector<Shape> meshes{{2, 2}, {3, 2}, {2, 2, 2}, {5}};
  for (int i = 0; i < 600; ++i) {
    const Mesh mesh = mesh_of(random.pick(meshes));
    const MeshLayout cuts = random_view(random, mesh, 2);
    const Layout layout(cuts);
    SCOPED_TRACE(to_string(layout) + " on " + to_string(mesh));
    EXPECT_EQ(parse_layout(to_string(layout), mesh), layout);
    const Placement placement = layout.placement();
    std::int64_t largest = 0;
    for (Device device = 0; device < mesh.device_count(); ++device) {
      std::map<std::int64_t, Shape> by_offset;
      for (const Part& part : placement.parts(device)) {
        for (std::int64_t row = part.box.lo[0]; row < part.box.hi[0]; ++row) {
          for (std::int64_t column = part.box.lo[1]; column < part.box.hi[1]; ++column) {
            const std::int64_t offset =
                part.offset + (row - part.box.lo[0]) * part.strides[0] + (column - part.box.lo[1]) * part.strides[1];
            EXPECT_TRUE(by_offset.emplace(offset, Shape{row, column}).second) << "one element in a place";
          }
        }
      }
      std::map<std::int64_t, Shape> expected;
      for (const std::int64_t row : held_by_hand(cuts, 0, device)) {
        for (const std::int64_t column : held_by_hand(cuts, 1, device)) {
          expected.emplace(expected.size(), Shape{row, column});
        }
      }
      ASSERT_EQ(by_offset, expected) << "device " << device;
      EXPECT_EQ(placement.size(device), static_cast<std::int64_t>(expected.size()));
      largest = std::max(largest, placement.size(device));
    }
    EXPECT_EQ(layout.local_size(), largest);
  }
}

// A random placement of one box for each device, perhaps none.
// --- What is wrong with layouts that were not written as text.

std::string fault_of(const MeshLayout& layout) {
  const auto found = Layout::find_fault(layout);
  return found ? found->fault.message : "none";
}

TEST(LayoutFaults, of_meshes) {
  const Mesh mesh = mesh_of({2, 3});
  MeshLayout layout{mesh, {{{5, {mesh.whole(0)}}}}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  EXPECT_EQ(fault_of(layout), "none");
  layout.devices = {0, 1, 2};
  EXPECT_EQ(fault_of(layout), "3 devices for a mesh of 6");
  layout.devices = {0, 1, 2, 3, 4, -1};
  EXPECT_EQ(fault_of(layout), "-1 is no device");
  layout.devices = {0, 1, 2, 3, 4, 2};
  EXPECT_EQ(fault_of(layout), "device 2 is listed twice");
  layout.devices.clear();
  layout.view[0][0].size = -1;
  EXPECT_EQ(fault_of(layout), "a size is below 0");
  layout.view = {{{INT64_MAX, {}}, {2, {}}}};
  EXPECT_EQ(fault_of(layout), "the number of elements of the global array does not fit in 63 bits");
  EXPECT_THROW(Layout{layout}, InputError);
}

TEST(LayoutFaults, of_boxes_are_found_wherever_they_are) {
  RandomProblems random(13);
  // Tiles of 2 x 2 of an array of 6 x 6 on 5 devices: right, whatever their order; then one is lost, moved or grown.
  for (int i = 0; i < 200; ++i) {
    BoxLayout layout{{6, 6}, std::vector<std::vector<Box>>(5)};
    for (const std::int64_t tile : random.permutation(9)) {
      const Shape corner{tile / 3 * 2, tile % 3 * 2};
      layout.boxes[random.number(5)].push_back(box_at(corner, {2, 2}));
    }
    ASSERT_FALSE(Layout::find_fault(layout));
    std::vector<std::vector<Box>>& boxes = layout.boxes;
    std::size_t device = random.number(5);
    while (boxes[device].empty()) device = (device + 1) % 5;
    Box& box = random.number(2) == 0 ? boxes[device].front() : boxes[device].back();
    switch (random.number(3)) {
      case 0: {
        const Shape corner = box.lo;
        std::erase(boxes[device], Box(box));
        const auto found = Layout::find_fault(layout);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->fault.message, "no device holds element " + to_string(corner));
        break;
      }
      case 1:
        box.lo[0] -= 1;
        ASSERT_TRUE(Layout::find_fault(layout));
        break;
      default:
        box.hi[1] += 1;
        ASSERT_TRUE(Layout::find_fault(layout));
        break;
    }
  }
}

}  // namespace
}  // namespace retile
