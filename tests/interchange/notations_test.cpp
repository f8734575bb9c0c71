// The notations that name axes or number a mesh's dimensions: JAX, Shardy, DTensor, MLIR.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "retile/interchange/dtensor.h"
#include "retile/interchange/notation.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/problems.h"
#include "tests/support/small_types.h"

namespace retile::interchange {
namespace {

using test::diagnostic_of;

Layout read(const std::string& text, const Shape& shape, const std::string& mesh = {}) {
  std::optional<PlacedMesh> placed;
  if (!mesh.empty()) placed = parse_placed_mesh({"mesh", mesh});
  return parse_ends({"sharding", text}, {"sharding", text}, shape, placed).source;
}

std::string shown(const std::string& text, const Shape& shape, const std::string& mesh = {}) {
  const Layout layout = read(text, shape, mesh);
  return to_string(layout) + " on " + to_string(layout.cuts()->mesh);
}

std::string fault(const std::string& text, const Shape& shape, const std::string& mesh = {}) {
  return diagnostic_of([&] { return read(text, shape, mesh); });
}

// Printed and read again; "" where the notation cannot say it.
std::string printed(const Layout& layout, Notation notation) {
  try {
    const NotationText text = to_notation(layout, notation);
    EXPECT_EQ(read(text.layout, layout.global_shape(), text.mesh).placement(), layout.placement()) << text.layout;
    return text.mesh + " " + text.layout;
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Notations, are_recognised_by_how_they_begin) {
  const auto name = [](const char* text) {
    const auto notation = recognise_notation(text);
    return notation ? name_of(*notation) : "none";
  };
  EXPECT_STREQ(name(" {devices=[2]<=[2]}"), "xla");
  EXPECT_STREQ(name("P('x')"), "jax");
  EXPECT_STREQ(name("NamedSharding(mesh=Mesh('x': 2), spec=P('x'))"), "jax");
  EXPECT_STREQ(name("#sdy.sharding<@mesh, [{\"x\"}]>"), "shardy");
  EXPECT_STREQ(name("(Shard(dim=0),)"), "dtensor");
  EXPECT_STREQ(name("[Shard(0), Replicate()]"), "dtensor");
  EXPECT_STREQ(name("mesh.sharding @mesh split_axes = [[0]]"), "mlir");
  EXPECT_STREQ(name("[4{x}8, 16]"), "none");
}

TEST(Notations, every_small_type_is_printed_and_read_again) {
  int said[5] = {};
  test::for_each_small_type(8, [&](const DistributedType& type) {
    for (const Notation notation : {Notation::jax, Notation::shardy, Notation::dtensor, Notation::mlir}) {
      const auto text = [&]() -> std::optional<NotationText> {
        try {
          return to_notation(type, notation);
        } catch (const InputError&) {
          return std::nullopt;
        }
      }();
      if (!text) continue;
      ++said[static_cast<int>(notation)];
      const Layout again = read(text->layout, type.global_shape(), text->mesh);
      ASSERT_EQ(again.placement(), Placement(type)) << text->layout;
      ASSERT_TRUE(notation == Notation::mlir || again == Layout(type)) << text->layout;  // MLIR has no names
    }
  });
  for (const Notation notation : {Notation::jax, Notation::shardy, Notation::dtensor, Notation::mlir}) {
    EXPECT_GT(said[static_cast<int>(notation)], 500) << name_of(notation);
  }
}

TEST(Notations, say_sums_and_orders_of_devices_where_they_can) {
  const Mesh mesh({{"x", 2}, {"y", 2}});
  const auto all = [&](const char* text) {
    std::string out;
    for (const Notation notation : {Notation::jax, Notation::shardy, Notation::dtensor, Notation::mlir}) {
      out += printed(parse_layout(text, mesh), notation) + "\n";
    }
    return out;
  };
  EXPECT_EQ(all("[4{x}8] sum {y} on [0, 2, 1, 3]"),
            R"(Mesh(device_ids=array([[0, 2], [1, 3]]), axis_names=('x', 'y')) PartitionSpec('x', unreduced={'y'})
sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]> #sdy.sharding<@mesh, [{"x"}], unreduced={"y"}>
DeviceMesh([[0, 2], [1, 3]], mesh_dim_names=('x', 'y')) (Shard(dim=0), Partial(sum))
MLIR cannot say an order of devices
)");
  EXPECT_EQ(all("[2{y,x}5] nested"), R"(JAX cannot say the nested rule for sizes that do not divide
Shardy cannot say the nested rule for sizes that do not divide
DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('x', 'y')) (Shard(dim=0), Shard(dim=0))
MLIR cannot say the nested rule for sizes that do not divide
)");
  EXPECT_EQ(all("[2{y,x}5] balanced"), R"(JAX cannot say the balanced rule for sizes that do not divide
Shardy cannot say the balanced rule for sizes that do not divide
DTensor cannot say this layout
MLIR cannot say the balanced rule for sizes that do not divide
)");
}

// --- JAX.

TEST(JaxSharding, lists_axes_major_to_minor) {
  EXPECT_EQ(shown("PartitionSpec('x', ('y', 'z'), None)", {8, 16, 4}, "x=2,y=2,z=4"),
            "[4{x}8, 2{z,y}16, 4] on {x: 2, y: 2, z: 4}");
  EXPECT_EQ(shown("P('x',)", {9, 16}, "Mesh('x': 2)"), "[5{x}9, 16] on {x: 2}");
  EXPECT_EQ(shown("NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), spec=PartitionSpec(None, 'y'), "
                  "memory_kind=device)",
                  {8, 8}),
            "[8, 2{y}8] on {x: 2, y: 4}");
  EXPECT_EQ(shown("P('x')", {8}, "Mesh(device_ids=array([[0, 1],\n       [2, 3]]), axis_names=('x', 'y'))"),
            "[4{x}8] on {x: 2, y: 2}");
  EXPECT_EQ(shown("P('x')", {8}, "Mesh(device_ids=array([1, 0]), axis_names=('x',))"), "[4{x}8] on [1, 0] on {x: 2}");
}

TEST(JaxSharding, may_be_of_a_single_device) {
  EXPECT_EQ(shown("SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)", {8, 4}), "[8, 4] on {}");
  EXPECT_EQ(shown("SingleDeviceSharding(device=TpuDevice(id=3, process_index=0, coords=(1,1,0), core_on_chip=0))", {8}),
            "[8] on [3] on {}");
  EXPECT_EQ(fault("SingleDeviceSharding(device=CpuDevice(id=0), kind=1)", {8}),
            R"(sharding:1:46: error: unknown field 'kind' of a SingleDeviceSharding
    1 | SingleDeviceSharding(device=CpuDevice(id=0), kind=1)
      |                                              ^~~~
hint: known are device, memory_kind
)");
}

TEST(JaxFault, spec_longer_than_the_rank) {
  EXPECT_EQ(fault("PartitionSpec('x', None, 'y')", {8, 8}, "x=2,y=2"),
            R"(sharding:1:26: error: there is no dimension 2: the array has rank 2
    1 | PartitionSpec('x', None, 'y')
      |                          ^~~
hint: its shape is [8, 8]
)");
}

TEST(JaxFault, axis_that_the_mesh_lacks) {
  EXPECT_EQ(fault("P('data', None)", {8, 8}, "date=2,model=2"), R"(sharding:1:3: error: unknown axis data
    1 | P('data', None)
      |   ^~~~~~
hint: did you mean date? the mesh has date, model
)");
}

// A shell takes the quotes of 'P('x', None)'.
TEST(JaxFault, axis_without_quotes) {
  EXPECT_EQ(fault("P(x, None)", {8, 8}, "x=2"), R"f(sharding:1:3: error: axis x stands without quotes
    1 | P(x, None)
      |   ^
hint: in a shell, double quotes go around single ones: "P('x', None)"
)f");
}

TEST(JaxFault, unknown_fields_and_no_mesh) {
  EXPECT_EQ(fault("NamedSharding(mesh=Mesh('x': 2), spec=P('x'), kind=1)", {8}),
            R"(sharding:1:47: error: unknown field 'kind' of a NamedSharding
    1 | NamedSharding(mesh=Mesh('x': 2), spec=P('x'), kind=1)
      |                                               ^~~~
hint: known are mesh, spec, memory_kind, logical_device_ids
)");
  EXPECT_EQ(fault("P('x')", {8}), R"x(sharding:1:1: error: nothing says which mesh this is of
    1 | P('x')
      | ^~~~~~
hint: give one, as in --mesh "Mesh('x': 2, 'y': 4)" or --mesh x=2,y=4
)x");
  EXPECT_EQ(fault("P('x', 'x')", {8, 8}, "x=2"), R"(sharding:1:8: error: axis x is used twice
    1 | P('x', 'x')
      |        ^~~
hint: an axis cuts at most one dimension, once
)");
}

// --- Shardy.

TEST(ShardySharding, has_parts_of_axes) {
  const std::string mesh = R"(sdy.mesh @mesh = <["x"=2, "y"=4]>)";
  EXPECT_EQ(shown(R"(#sdy.sharding<@mesh, [{"x", "y"}, {}]>)", {16, 8}, mesh), "[2{y,x}16, 8] on {x: 2, y: 4}");
  EXPECT_EQ(shown(R"(#sdy.sharding<@mesh, [{"y":(2)2, ?}p1, {"y":(1)2}], replicated={"x"}>)", {16, 8}, mesh),
            "[8{y:(2)2}16, 4{y:(1)2}8] on {x: 2, y: 4}");
  EXPECT_EQ(shown(R"(#sdy.sharding<mesh<["x"=2], device_ids=[1, 0]>, [{"x"}]>)", {8}).substr(0, 20),
            "[4{x}8] on [1, 0] on");
}

TEST(ShardyFault, places) {
  const std::string mesh = R"(sdy.mesh @mesh = <["x"=2, "y"=4]>)";
  EXPECT_EQ(fault(R"(#sdy.sharding<@mesh, [{"z"}]>)", {8}, mesh), R"(sharding:1:24: error: unknown axis z
    1 | #sdy.sharding<@mesh, [{"z"}]>
      |                        ^~~
hint: the mesh has x, y
)");
  EXPECT_EQ(fault(R"(#sdy.sharding<@mesh, [{"x"}, {}]>)", {8}, mesh),
            R"(sharding:1:30: error: there is no dimension 1: the array has rank 1
    1 | #sdy.sharding<@mesh, [{"x"}, {}]>
      |                              ^~
hint: its shape is [8]
)");
  EXPECT_EQ(fault(R"(#sdy.sharding<@other, [{"x"}]>)", {8}, mesh), R"(sharding:1:15: error: there is no mesh @other
    1 | #sdy.sharding<@other, [{"x"}]>
      |               ^~~~~~
hint: the one that is given is @mesh
)");
  EXPECT_EQ(fault(R"(#sdy.sharding<@mesh, [{"x"}], replicated={"x"}>)", {8}, mesh),
            R"(sharding:1:43: error: x is not replicated: it is used above
    1 | #sdy.sharding<@mesh, [{"x"}], replicated={"x"}>
      |                                           ^~~
)");
}

// --- DTensor.

TEST(DTensorPlacements, cut_along_the_mesh_in_order) {
  const std::string mesh = "DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))";
  EXPECT_EQ(shown("(Shard(dim=0), Shard(dim=0))", {8, 4}, mesh), "[2{tp,dp}8, 4] on {dp: 2, tp: 2}");
  EXPECT_EQ(shown("[Shard(-1), Replicate()]", {8, 4}, mesh), "[8, 2{dp}4] on {dp: 2, tp: 2}");
  EXPECT_EQ(shown("(Partial(sum), Shard(dim=0))", {8, 4}, mesh), "[4{tp}8, 4] sum {dp} on {dp: 2, tp: 2}");
  EXPECT_EQ(shown("(Shard(dim=0), Replicate())", {8}, "DeviceMesh((dp=2, tp=3), 'cuda', stride=(1, 2))"),
            "[4{dp}8] on [0, 2, 4, 1, 3, 5] on {dp: 2, tp: 3}");
  EXPECT_EQ(shown("(Shard(dim=0),)", {8}, "DeviceMesh('cpu', [0, 1, 2, 3])"), "[2{dim_0}8] on {dim_0: 4}");
}

TEST(DTensorPlacements, strided_shards_are_views_or_another_order) {
  EXPECT_EQ(shown("(_StridedShard(dim=0, sf=2), Shard(dim=0))", {8}, "dp=2,tp=2"), "[2{dp,tp}8] on {dp: 2, tp: 2}");
  EXPECT_EQ(shown("(_StridedShard(dim=0, sf=3), Replicate())", {12}, "dp=2,tp=2"), "[3*2{dp}4] on {dp: 2, tp: 2}");
  EXPECT_EQ(fault("(_StridedShard(dim=0, sf=3), Replicate())", {8}, "dp=2,tp=2"),
            R"(sharding:1:2: error: dimension 0 of 8 does not divide into these strides
    1 | (_StridedShard(dim=0, sf=3), Replicate())
      |  ^~~~~~~~~~~~~~~~~~~~~~~~~
hint: 3 parts of what is left of it are each cut into 2 tiles
)");
  const Mesh mesh({{"x", 2}, {"y", 3}, {"z", 2}});
  for (const char* text : {"[3*4{x}8*2]", "[6*1{z}2*1{x}2]", "[1{x,y,z}12]", "[2{z,x,y}24]", "[3{x}6*1{y}3]"}) {
    printed(parse_layout(text, mesh), Notation::dtensor);
  }
  EXPECT_EQ(to_notation(parse_layout("[3*4{x}8*2]", mesh), Notation::dtensor).layout,
            "(_StridedShard(dim=0, sf=3), Replicate(), Replicate())");
  EXPECT_EQ(to_notation(parse_layout("[1{x,y,z}12]", mesh), Notation::dtensor).layout,
            "(_StridedShard(dim=0, sf=6), _StridedShard(dim=0, sf=2), Shard(dim=0))");
}

TEST(DTensorPlacements, strides_that_do_not_divide_are_another_order) {
  const auto in_order = [](const Shape& shape, const std::string& sizes, const std::string& transposed) {
    const std::string parts = sizes.substr(sizes.rfind('=') + 1);
    return read("(_StridedShard(dim=0, sf=" + parts + "), Shard(dim=0))", shape, sizes).placement().size(0) ==
           read("(Shard(dim=0), Shard(dim=0))", shape, transposed).placement().size(0);
  };
  EXPECT_EQ(shown("(_StridedShard(dim=0, sf=2), Shard(dim=0))", {10}, "dp=2,tp=2"),
            "[3{dp,tp}10] nested on {dp: 2, tp: 2}");
  EXPECT_EQ(shown("(_StridedShard(dim=0, sf=6), _StridedShard(dim=0, sf=2), Shard(dim=0))", {25}, "x=2,y=3,z=2"),
            "[3{x,y,z}25] nested on {x: 2, y: 3, z: 2}");
  // Vocabularies and an inner size of models in use, on FSDP over TP.
  EXPECT_TRUE(in_order({151936}, "dp=32,tp=8", "tp=8,dp=32"));
  EXPECT_TRUE(in_order({128256}, "dp=64,tp=8", "tp=8,dp=64"));
  EXPECT_TRUE(in_order({129280}, "dp=64,tp=8", "tp=8,dp=64"));
  EXPECT_TRUE(in_order({11008}, "dp=64,tp=8", "tp=8,dp=64"));
  printed(read("(_StridedShard(dim=0, sf=2), Shard(dim=0))", {10}, "dp=2,tp=2"), Notation::dtensor);
  EXPECT_EQ(fault("(_StridedShard(dim=0, sf=3), Shard(dim=0))", {10}, "dp=2,tp=2"),
            R"(sharding:1:2: error: dimension 0 of 10 does not divide into these strides
    1 | (_StridedShard(dim=0, sf=3), Shard(dim=0))
      |  ^~~~~~~~~~~~~~~~~~~~~~~~~
hint: 3 parts of what is left of it are each cut into 2 tiles
)");
}

// Recorded with PyTorch.
TEST(DTensorPlacements, tiles_are_those_of_pytorch) {
  int count = 0;
  for (const SourceText& line : test::data_lines("dtensor_tiles.jsonl")) {
    const auto record = nlohmann::json::parse(line.text);
    std::string mesh;
    std::string placements = "(";
    for (std::size_t i = 0; i < record["mesh"].size(); ++i) {
      mesh += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + record["mesh"][i].dump();
      bool is_cut = false;
      if (record.contains("shard")) {
        for (const auto& axis : record["shard"]) is_cut = is_cut || axis == i;
        placements += is_cut ? "Shard(dim=0)," : "Replicate(),";
      } else {
        const std::string placement = record["placements"][i];
        placements += placement == "R" ? "Replicate()," : "Shard(dim=" + placement.substr(1) + "),";
      }
    }
    const Placement placement = read(placements + ")", record["shape"].get<Shape>(), mesh).placement();
    for (std::size_t device = 0; device < record["tiles"].size(); ++device) {
      auto tile = record["tiles"][device];
      if (record.contains("shard")) tile = nlohmann::json::array({tile});
      std::int64_t elements = 1;
      for (const auto& interval : tile) elements *= interval[1].get<std::int64_t>() - interval[0].get<std::int64_t>();
      ASSERT_EQ(placement.size(static_cast<Device>(device)), elements) << line.text;
      if (elements == 0) continue;
      const Box box = placement.parts(static_cast<Device>(device)).at(0).box;
      for (std::size_t i = 0; i < tile.size(); ++i) {
        ASSERT_EQ(box.lo[i], tile[i][0].get<std::int64_t>()) << line.text;
        ASSERT_EQ(box.hi[i], tile[i][1].get<std::int64_t>()) << line.text;
      }
      ++count;
    }
  }
  EXPECT_GT(count, 1000);
}

TEST(DTensorPlacements, values_are_as_their_texts) {
  using Kind = DTensorPlacement::Kind;
  const PlacedMesh mesh = parse_placed_mesh({"mesh", "DeviceMesh([[3, 1], [2, 0]], mesh_dim_names=('dp', 'tp'))"});
  const auto same = [&](const std::vector<DTensorPlacement>& placements, const char* text) {
    EXPECT_EQ(dtensor_layout(mesh, placements, {8, 6}), parse_ends({"", text}, {"", text}, {8, 6}, mesh).source)
        << text;
  };
  same({{Kind::shard, 0}, {Kind::shard, -1}}, "(Shard(0), Shard(-1))");
  same({{Kind::shard, 0, 2}, {Kind::shard, 0}}, "(_StridedShard(dim=0, sf=2), Shard(0))");
  same({{Kind::partial, 0, 1, Reduction::max}, {}}, "(Partial(max), Replicate())");
  same({{Kind::shard, 0}, {Kind::shard, 0}}, "(Shard(0), Shard(0))");
}

TEST(DTensorFault, of_values_has_no_place) {
  using Kind = DTensorPlacement::Kind;
  const auto fault = [](const std::vector<DTensorPlacement>& placements) {
    return diagnostic_of([&] { return dtensor_layout({parse_mesh("dp=2,tp=2"), {}}, placements, {8, 5}); });
  };
  EXPECT_EQ(fault({{}}),
            "error: 1 placements for a mesh of 2 dimensions\nhint: there is one for each dimension of the mesh\n");
  EXPECT_EQ(fault({{}, {}, {}}),
            "error: there is no dimension 2 of the mesh for this placement\nhint: the mesh is {dp: 2, tp: 2}\n");
  EXPECT_EQ(fault({{Kind::shard, -3}, {}}),
            "error: there is no dimension -3: the array has rank 2\nhint: its shape is [8, 5]\n");
  EXPECT_EQ(fault({{Kind::shard, 1, 2}, {}}),
            "error: dimension 1 of 5 does not divide into these strides\n"
            "hint: 2 parts of what is left of it are each cut into 2 tiles\n");
  EXPECT_EQ(fault({{Kind::partial, 0, 1, Reduction::max}, {Kind::partial}}),
            "error: this is a sum of parts that make up a max\nhint: a value is reduced in one way\n");
}

TEST(DTensorFault, places) {
  EXPECT_EQ(fault("(Shard(0), Shard(1), Replicate())", {8, 8}, "dp=2,tp=2"),
            R"(sharding:1:22: error: there is no dimension 2 of the mesh for this placement
    1 | (Shard(0), Shard(1), Replicate())
      |                      ^~~~~~~~~
hint: the mesh is {dp: 2, tp: 2}
)");
  EXPECT_EQ(fault("(Shard(dim=2), Replicate())", {8, 8}, "dp=2,tp=2"),
            R"(sharding:1:8: error: there is no dimension 2: the array has rank 2
    1 | (Shard(dim=2), Replicate())
      |        ^~~~~
hint: its shape is [8, 8]
)");
  EXPECT_EQ(fault("(Shard(dim=0),)", {8, 8}, "dp=2,tp=2"),
            R"(sharding:1:1: error: 1 placements for a mesh of 2 dimensions
    1 | (Shard(dim=0),)
      | ^~~~~~~~~~~~~~~
hint: there is one for each dimension of the mesh
)");
  EXPECT_EQ(fault("(Partial(avg),)", {8}, "dp=2"), R"(sharding:1:10: error: parts that make up a 'avg' are not known
    1 | (Partial(avg),)
      |          ^~~
hint: use one of sum, max, min
)");
  EXPECT_EQ(fault("(Sharded(0),)", {8}, "dp=2"), R"(sharding:1:2: error: unknown field 'Sharded' of a list of placements
    1 | (Sharded(0),)
      |  ^~~~~~~
hint: did you mean Shard? known are Shard, Replicate, Partial, _StridedShard
)");
}

// --- MLIR.

TEST(MlirSharding, numbers_the_axes) {
  const std::string mesh = "mesh.mesh @mesh0(shape = 2x4)";
  EXPECT_EQ(shown("%0 = mesh.sharding @mesh0 split_axes = [[0, 1], []] : !mesh.sharding", {16, 8}, mesh),
            "[2{axis1,axis0}16, 8] on {axis0: 2, axis1: 4}");
  EXPECT_EQ(shown("#shard.sharding<@mesh0, [[1]], partial = sum[0]>", {16, 8}, mesh),
            "[4{axis1}16, 8] sum {axis0} on {axis0: 2, axis1: 4}");
  EXPECT_EQ(shown("shard.sharding @grid split_axes = [[0]]", {16}, "shard.grid @grid(shape = 2)"),
            "[8{axis0}16] on {axis0: 2}");
}

TEST(MlirFault, places) {
  const std::string mesh = "mesh.mesh @mesh0(shape = 2x4)";
  EXPECT_EQ(fault("mesh.sharding @mesh0 split_axes = [[2]]", {8}, mesh),
            R"(sharding:1:37: error: there is no axis 2: the mesh has 2
    1 | mesh.sharding @mesh0 split_axes = [[2]]
      |                                     ^
hint: axes count from 0
)");
  EXPECT_EQ(fault("mesh.sharding @mesh0 split_axes = [[0], [1]]", {8}, mesh),
            R"(sharding:1:41: error: there is no dimension 1: the array has rank 1
    1 | mesh.sharding @mesh0 split_axes = [[0], [1]]
      |                                         ^~~
hint: its shape is [8]
)");
  EXPECT_EQ(fault("mesh.sharding @mesh0 split_axes = [[1]]", {9}, mesh),
            R"(sharding:1:37: error: dimension 0 of 9 does not divide into tiles along these axes
    1 | mesh.sharding @mesh0 split_axes = [[1]]
      |                                     ^
)");
}

// --- Arrays.

TEST(ArrayText, has_the_names_of_compilers) {
  const auto parsed = [](const char* text) {
    const ArrayText array = parse_array({"array", text});
    return std::string(name_of(array.element_type)) + to_string(array.shape);
  };
  EXPECT_EQ(parsed("f32[16,1024]{1,0}"), "f32[16, 1024]");
  EXPECT_EQ(parsed("s64[]"), "i64[]");
  EXPECT_EQ(parsed("pred[8]"), "bool[8]");
  EXPECT_EQ(parsed("uint16[8]"), "u16[8]");
  EXPECT_EQ(parsed("f8e4m3fn[8]"), "f8e4m3fn[8]");
  EXPECT_EQ(parsed("float8_e5m2[8]"), "f8e5m2[8]");
  EXPECT_EQ(parsed("f8e4m3b11fnuz[8]"), "u8[8]") << "as bits";
  EXPECT_EQ(parsed("bfloat16[8]"), "bf16[8]");
  for (const char* sizes : {"512x16", "(512, 16)", "[512,16]", "512, 16", "(512,16,)"}) {
    EXPECT_EQ(parsed(sizes), "f32[512, 16]") << sizes;
  }
  EXPECT_EQ(parsed("(8,)"), "f32[8]");
  EXPECT_EQ(diagnostic_of([&] { return parsed("512x-1"); }),
            R"(array:1:1: error: expected an element type, found '512x'
    1 | 512x-1
      | ^~~~
hint: names are letters, digits and _, or any text in double quotes
)");
  EXPECT_EQ(diagnostic_of([&] { return parsed("f33[8]"); }), R"(array:1:1: error: unknown element type 'f33'
    1 | f33[8]
      | ^~~
hint: retile moves bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64 c64 c128
)");
}

TEST(ParseEnds, says_that_a_sharding_is_cut_off) {
  const auto parsed = [](const char* source) {
    return parse_ends({"from", source}, {"to", "{devices=[8,1]<=[8]}"}, {8, 8}, {});
  };
  EXPECT_EQ(diagnostic_of([&] { return parsed("{devices=[2,4]0,1,2,3,..."); }),
            R"(from:1:23: error: the sharding is cut off here
    1 | {devices=[2,4]0,1,2,3,...
      |                       ^~~
hint: give it as a whole
)");
  EXPECT_EQ(diagnostic_of([&] { return parsed("NamedSharding(mesh=Mesh('x': 2, …"); }),
            R"(from:1:33: error: the sharding is cut off here
    1 | NamedSharding(mesh=Mesh('x': 2, …
      |                                 ^
hint: give it as a whole
)");
}

TEST(ParseEnds, local_shapes_are_those_of_the_sources_tiles) {
  const LocalEnds read = parse_local_ends({"from", "{devices=[2,4]<=[8]}"}, {"to", "{devices=[8,1]<=[8]}"}, {4, 2}, {});
  EXPECT_EQ(read.shape, (Shape{8, 8}));
  EXPECT_EQ(to_string(read.ends.target), "[1{b,a}8, 8]");
}

}  // namespace
}  // namespace retile::interchange
