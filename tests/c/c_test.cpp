// The C interface: what it does is what the library does, and everything that goes wrong is a status with a message.
#include "retile/c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/c/handles.h"

namespace retile::c::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

MeshHandle mesh_of(const char* text) {
  retile_mesh* mesh = nullptr;
  EXPECT_EQ(retile_mesh_parse(text, &mesh), RETILE_OK) << retile_error_message();
  return MeshHandle(mesh);
}

LayoutHandle layout_of(const MeshHandle& mesh, const char* text) {
  retile_layout* layout = nullptr;
  EXPECT_EQ(retile_layout_parse(mesh.get(), text, &layout), RETILE_OK) << retile_error_message();
  return LayoutHandle(layout);
}

PlanHandle plan_of(const LayoutHandle& source, const LayoutHandle& target, const char* element,
                   const retile_plan_options* options = nullptr) {
  retile_plan* plan = nullptr;
  EXPECT_EQ(retile_plan_create(source.get(), target.get(), element, options, &plan), RETILE_OK)
      << retile_error_message();
  return PlanHandle(plan);
}

EngineHandle threads() {
  retile_engine* engine = nullptr;
  EXPECT_EQ(retile_engine_threads(2, &engine), RETILE_OK) << retile_error_message();
  return EngineHandle(engine);
}

RunHandle run_of(const PlanHandle& plan, const EngineHandle& engine, const retile_memory* sources = nullptr,
                 const retile_memory* targets = nullptr) {
  retile_run* run = nullptr;
  EXPECT_EQ(retile_run_create(plan.get(), engine.get(), sources, targets, &run), RETILE_OK) << retile_error_message();
  return RunHandle(run);
}

template <typename Ask, typename Handle>
std::string text_of(const Ask& ask, const Handle& handle) {
  std::size_t length = 0;
  EXPECT_EQ(ask(handle.get(), nullptr, 0, &length), RETILE_OK);
  std::string text(length + 1, '?');
  EXPECT_EQ(ask(handle.get(), text.data(), text.size(), nullptr), RETILE_OK);
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(CInterface, has_the_version_that_it_was_compiled_with) {
  EXPECT_STREQ(retile_version(), RETILE_VERSION);
  EXPECT_EQ(std::string(RETILE_VERSION), std::to_string(RETILE_VERSION_MAJOR) + "." +
                                             std::to_string(RETILE_VERSION_MINOR) + "." +
                                             std::to_string(RETILE_VERSION_PATCH));
}

TEST(CInterface, plans_prints_verifies_and_runs) {
  const MeshHandle mesh = mesh_of("a=2");
  EXPECT_EQ(retile_mesh_devices(mesh.get()), 2);
  const LayoutHandle rows = layout_of(mesh, "[2{a}4, 3]");
  const LayoutHandle whole = layout_of(mesh, "[4, 3]");
  const PlanHandle plan = plan_of(rows, whole, "f32");
  EXPECT_EQ(retile_plan_devices(plan.get()), 2);
  EXPECT_EQ(retile_plan_cost(plan.get()), 12);
  EXPECT_EQ(retile_plan_lower_bound(plan.get()), 12);
  EXPECT_EQ(retile_plan_verify(plan.get()), RETILE_OK);
  EXPECT_THAT(text_of(retile_plan_text, plan), HasSubstr("allgather(0; 2)"));

  const EngineHandle engine = threads();
  const RunHandle run = run_of(plan, engine);
  EXPECT_EQ(retile_run_arrays(run.get()), 1U);
  EXPECT_EQ(retile_run_devices(run.get()), 2U);
  std::int64_t source_bytes = 0;
  std::int64_t target_bytes = 0;
  EXPECT_EQ(retile_run_bytes(run.get(), 0, 1, &source_bytes, &target_bytes), RETILE_OK);
  EXPECT_EQ(source_bytes, 24);
  EXPECT_EQ(target_bytes, 48);
  const std::vector<float> first = numbers(6, 0);
  const std::vector<float> second = numbers(6, 6);
  std::vector<float> a(12);
  std::vector<float> b(12);
  const std::array<const void*, 2> sources{first.data(), second.data()};
  const std::array<void*, 2> targets{a.data(), b.data()};
  EXPECT_EQ(retile_run_execute(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  EXPECT_EQ(a, numbers(12, 0));
  EXPECT_EQ(b, numbers(12, 0));
  retile_statistics statistics{};
  EXPECT_EQ(retile_run_statistics(run.get(), &statistics), RETILE_OK);
  EXPECT_EQ(statistics.received_max, 24);
}

TEST(CInterface, runs_in_the_background) {
  const MeshHandle mesh = mesh_of("a=2");
  const PlanHandle plan = plan_of(layout_of(mesh, "[2{a}4]"), layout_of(mesh, "[4]"), "f32");
  const RunHandle run = run_of(plan, threads());  // the engine need not outlive it
  const std::vector<float> first{1, 2};
  const std::vector<float> second{3, 4};
  std::vector<float> a(4);
  std::vector<float> b(4);
  const std::array<const void*, 2> sources{first.data(), second.data()};
  const std::array<void*, 2> targets{a.data(), b.data()};
  ASSERT_EQ(retile_run_start(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  int done = 0;
  while (done == 0) ASSERT_EQ(retile_run_test(run.get(), &done), RETILE_OK) << retile_error_message();
  EXPECT_THAT(a, ElementsAre(1, 2, 3, 4));
  b.assign(4, 0);
  ASSERT_EQ(retile_run_start(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  ASSERT_EQ(retile_run_wait(run.get()), RETILE_OK) << retile_error_message();
  EXPECT_THAT(b, ElementsAre(1, 2, 3, 4));
}

TEST(CInterface, takes_layouts_as_integers) {
  const std::array<std::int64_t, 2> sizes{2, 3};
  retile_mesh* made = nullptr;
  ASSERT_EQ(retile_mesh_create(2, sizes.data(), nullptr, &made), RETILE_OK) << retile_error_message();
  const MeshHandle mesh(made);
  EXPECT_EQ(retile_mesh_devices(made), 6);
  const std::array<std::int64_t, 3> shape{12, 5, 7};
  const std::array<int, 3> counts{2, 0, 0};
  const std::array<int, 2> axes{1, 0};  // the second axis fastest
  retile_layout* layout = nullptr;
  ASSERT_EQ(retile_layout_create(made, 3, shape.data(), counts.data(), axes.data(), &layout), RETILE_OK)
      << retile_error_message();
  const LayoutHandle owner(layout);
  EXPECT_EQ(text_of(retile_layout_text, owner), "[2{a1,a0}12, 5, 7]");
  EXPECT_EQ(retile_layout_rank(layout), 3);
  EXPECT_EQ(retile_layout_devices(layout), 6);
  std::array<std::int64_t, 3> first{};
  std::array<std::int64_t, 3> end{};
  ASSERT_EQ(retile_layout_tile(layout, 4, first.data(), end.data()), RETILE_OK);
  EXPECT_THAT(first, ElementsAre(8, 0, 0));
  EXPECT_THAT(end, ElementsAre(10, 5, 7));
  std::int64_t elements = 0;
  ASSERT_EQ(retile_layout_size(layout, 4, &elements), RETILE_OK);
  EXPECT_EQ(elements, 70);
}

TEST(CInterface, takes_listed_boxes) {
  const std::int64_t shape = 6;
  const std::array<std::int64_t, 2> counts{2, 1};
  const std::array<std::int64_t, 6> bounds{0, 1, 4, 6, 1, 4};
  retile_layout* listed = nullptr;
  ASSERT_EQ(retile_layout_boxes(1, &shape, 2, counts.data(), bounds.data(), &listed), RETILE_OK)
      << retile_error_message();
  const LayoutHandle source(listed);
  const LayoutHandle target = layout_of(mesh_of("a=2"), "[3{a}6]");
  const RunHandle run = run_of(plan_of(source, target, "f32"), threads());
  const std::vector<float> first{0, 4, 5};
  const std::vector<float> second{1, 2, 3};
  std::vector<float> a(3);
  std::vector<float> b(3);
  const std::array<const void*, 2> sources{first.data(), second.data()};
  const std::array<void*, 2> targets{a.data(), b.data()};
  ASSERT_EQ(retile_run_execute(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  EXPECT_THAT(a, ElementsAre(0, 1, 2));
  EXPECT_THAT(b, ElementsAre(3, 4, 5));
  std::int64_t bound = 0;
  EXPECT_EQ(retile_layout_tile(source.get(), 0, &bound, &bound), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(),
               "error: device 0 has several boxes\nhint: retile_layout_local_shape gives the shape of its array");
}

std::vector<std::int64_t> local_shape(const LayoutHandle& layout, std::int64_t device) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(retile_layout_rank(layout.get())));
  int dimensions = -1;
  EXPECT_EQ(retile_layout_local_shape(layout.get(), device, &dimensions, shape.data()), RETILE_OK)
      << retile_error_message();
  shape.resize(static_cast<std::size_t>(dimensions));
  return shape;
}

TEST(CInterface, gives_the_shape_of_each_devices_array) {
  const MeshHandle mesh = mesh_of("a=2");
  EXPECT_THAT(local_shape(layout_of(mesh, "[10 cyclic 3{a}, 5]"), 0), ElementsAre(6, 5));
  EXPECT_THAT(local_shape(layout_of(mesh, "[10 cyclic 3{a}, 5]"), 1), ElementsAre(4, 5));
  EXPECT_THAT(local_shape(layout_of(mesh, "[4{a}8 halo 1 wrap, 5]"), 1), ElementsAre(6, 5));
  EXPECT_THAT(local_shape(layout_of(mesh, "[4{a}8, 5] order [1, 0]"), 1), ElementsAre(5, 4));
  EXPECT_THAT(local_shape(layout_of(mesh, "[8, 4] boxes {[0:4, 0:4] [6:8, 0:4]; [4:6, 0:4]}"), 0), ElementsAre(24));
  std::int64_t size = 0;
  int dimensions = 0;
  EXPECT_EQ(retile_layout_local_shape(layout_of(mesh, "[4{a}8]").get(), 2, &dimensions, &size), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: there is no device 2\nhint: the layout's 2 devices count from 0");
}

TEST(CInterface, takes_descriptors_of_matrices) {
  // On 1 x 2 processes: blocks of one column, the first one on process 1; columns are 4 elements apart.
  const std::array<int, 9> descriptor{1, 0, 3, 4, 2, 1, 0, 1, 4};
  retile_layout* made = nullptr;
  ASSERT_EQ(retile_layout_from_descriptor(descriptor.data(), 1, 2, "R", &made), RETILE_OK) << retile_error_message();
  const LayoutHandle matrix(made);
  EXPECT_EQ(text_of(retile_layout_text, matrix), "[3{row}3, 4 cyclic 1{column} from 1]");
  std::array<std::int64_t, 2> strides{};
  retile_memory memory{};
  ASSERT_EQ(retile_memory_from_descriptor(descriptor.data(), "f32", strides.data(), &memory), RETILE_OK);
  EXPECT_THAT(strides, ElementsAre(4, 16));
  EXPECT_EQ(memory.strides, strides.data());
  EXPECT_EQ(memory.count, 1);
  const RunHandle run = run_of(plan_of(matrix, layout_of(mesh_of("a=2"), "[3, 2{a}4]"), "f32"), threads(), &memory);
  const std::vector<float> first{1, 11, 21, -1, 3, 13, 23, -1};
  const std::vector<float> second{0, 10, 20, -1, 2, 12, 22, -1};
  std::vector<float> a(6);
  std::vector<float> b(6);
  const std::array<const void*, 2> sources{first.data(), second.data()};
  const std::array<void*, 2> targets{a.data(), b.data()};
  ASSERT_EQ(retile_run_execute(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  EXPECT_THAT(a, ElementsAre(0, 1, 10, 11, 20, 21));
  EXPECT_THAT(b, ElementsAre(2, 3, 12, 13, 22, 23));
}

// Columns of processes are numbered first: device 1 has the second row of blocks.
TEST(CInterface, numbers_the_processes_of_a_grid_by_its_order) {
  const std::array<int, 9> descriptor{1, 0, 4, 6, 2, 3, 0, 0, 2};
  for (const bool by_columns : {false, true}) {
    retile_layout* made = nullptr;
    ASSERT_EQ(retile_layout_from_descriptor(descriptor.data(), 2, 2, by_columns ? "C" : "R", &made), RETILE_OK);
    const LayoutHandle matrix(made);
    std::array<std::int64_t, 2> first{};
    std::array<std::int64_t, 2> end{};
    ASSERT_EQ(retile_layout_tile(made, 1, first.data(), end.data()), RETILE_OK) << retile_error_message();
    EXPECT_THAT(first, by_columns ? ElementsAre(2, 0) : ElementsAre(0, 3));
  }
}

TEST(CInterface, refuses_descriptors_that_are_wrong) {
  const std::array<int, 9> sparse{501, 0, 4, 6, 2, 3, 0, 0, 2};
  retile_layout* layout = nullptr;
  EXPECT_EQ(retile_layout_from_descriptor(sparse.data(), 2, 2, "R", &layout), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(),
               "error: DTYPE_ of a matrix's descriptor is 501\nhint: 1 stands for a dense matrix");
  EXPECT_EQ(retile_layout_from_descriptor(sparse.data(), 2, 2, "row", &layout), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: unknown order of a grid 'row'\nhint: orders are R, C");
  EXPECT_EQ(retile_layout_from_descriptor(nullptr, 2, 2, "R", &layout), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: the argument descriptor is NULL");
  EXPECT_EQ(layout, nullptr);
  std::array<std::int64_t, 2> strides{};
  retile_memory memory{7, nullptr, nullptr};
  EXPECT_EQ(retile_memory_from_descriptor(sparse.data(), "f64", strides.data(), &memory), RETILE_INPUT_ERROR);
  EXPECT_EQ(memory.count, 7);
}

TEST(CInterface, moves_tiles_as_they_lie) {
  // Two devices with 2 x 2 tiles, column by column, in columns of 3; targets packed.
  const MeshHandle mesh = mesh_of("a=2");
  const PlanHandle plan = plan_of(layout_of(mesh, "[2{a}4, 2]"), layout_of(mesh, "[4, 1{a}2]"), "f32");
  const std::int64_t offset = 4;
  const std::array<std::int64_t, 2> strides{4, 12};
  const retile_memory memory{1, &offset, strides.data()};
  const RunHandle run = run_of(plan, threads(), &memory);
  const std::vector<float> first{-1, 0, 10, -1, 1, 11};
  const std::vector<float> second{-1, 20, 30, -1, 21, 31};
  std::vector<float> a(4);
  std::vector<float> b(4);
  const std::array<const void*, 2> sources{first.data(), second.data()};
  const std::array<void*, 2> targets{a.data(), b.data()};
  ASSERT_EQ(retile_run_execute(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  EXPECT_THAT(a, ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(b, ElementsAre(1, 11, 21, 31));
}

// Column by column. The tiles that are reduced have fewer dimensions than the parts, which are side by side.
TEST(CInterface, moves_parts_of_sums_as_they_lie) {
  const MeshHandle mesh = mesh_of("a=4");
  const PlanHandle plan = plan_of(layout_of(mesh, "[8, 8] sum {a}"), layout_of(mesh, "[8, 8]"), "f32");
  const std::array<std::int64_t, 2> by_columns{4, 32};
  const retile_memory memory{1, nullptr, by_columns.data()};
  const std::vector<float> part = numbers(64, 1);
  const std::array<const void*, 4> sources{part.data(), part.data(), part.data(), part.data()};
  for (const bool is_target_packed : {false, true}) {
    const RunHandle run = run_of(plan, threads(), &memory, is_target_packed ? nullptr : &memory);
    std::array<std::vector<float>, 4> sums;
    std::array<void*, 4> targets{};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].resize(64);
      targets[i] = sums[i].data();
    }
    ASSERT_EQ(retile_run_execute(run.get(), sources.data(), targets.data()), RETILE_OK) << retile_error_message();
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(sums[3][i], 4 * part[is_target_packed ? i % 8 * 8 + i / 8 : i]) << i;
    }
  }
}

TEST(CInterface, moves_several_arrays_in_one_run) {
  const MeshHandle mesh = mesh_of("a=2");
  const LayoutHandle cut = layout_of(mesh, "[1{a}2]");
  const LayoutHandle whole = layout_of(mesh, "[2]");
  retile_transfer* made = nullptr;
  ASSERT_EQ(retile_transfer_create(&made), RETILE_OK);
  const TransferHandle transfer(made);
  for (const char* name : {"pressure", "density"}) {
    ASSERT_EQ(retile_transfer_add(made, name, cut.get(), whole.get(), "f32", nullptr, nullptr), RETILE_OK)
        << retile_error_message();
  }
  const EngineHandle engine = threads();
  retile_run* moved = nullptr;
  ASSERT_EQ(retile_transfer_run(made, engine.get(), 1 << 20, &moved), RETILE_OK) << retile_error_message();
  const RunHandle run(moved);
  EXPECT_EQ(retile_run_arrays(moved), 2U);
  const std::array<float, 4> from{1, 2, 3, 4};
  std::array<std::array<float, 2>, 4> to{};
  const std::array<const void*, 4> sources{&from[0], &from[1], &from[2], &from[3]};
  const std::array<void*, 4> targets{&to[0], &to[1], &to[2], &to[3]};
  ASSERT_EQ(retile_run_execute(moved, sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  EXPECT_THAT(to[1], ElementsAre(1, 2));
  EXPECT_THAT(to[2], ElementsAre(3, 4));
  ASSERT_EQ(retile_transfer_add(made, "density", cut.get(), whole.get(), "f32", nullptr, nullptr), RETILE_OK);
  EXPECT_EQ(retile_transfer_run(made, engine.get(), 0, &moved), RETILE_INPUT_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("density"));
}

TEST(CInterface, allocates_memory_of_the_engine) {
  const EngineHandle engine = threads();
  void* memory = nullptr;
  ASSERT_EQ(retile_engine_allocate(engine.get(), 100, &memory), RETILE_OK);
  static_cast<char*>(memory)[99] = 1;
  EXPECT_EQ(retile_engine_release(engine.get(), memory), RETILE_OK);
  EXPECT_EQ(retile_engine_release(engine.get(), memory), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_engine_release(engine.get(), nullptr), RETILE_OK);
  std::array<std::int64_t, 2> devices{};
  std::size_t number = 0;
  EXPECT_EQ(retile_engine_devices(engine.get(), 3, devices.data(), devices.size(), &number), RETILE_OK);
  EXPECT_EQ(number, 3U);
  EXPECT_THAT(devices, ElementsAre(0, 1));
}

TEST(CInterface, reads_back_the_plans_that_it_writes) {
  const MeshHandle mesh = mesh_of("a=2");
  const PlanHandle plan = plan_of(layout_of(mesh, "[2{a}4]"), layout_of(mesh, "[4]"), "f64");
  const std::string json = text_of(retile_plan_json, plan);
  retile_plan* again = nullptr;
  ASSERT_EQ(retile_plan_parse(json.c_str(), "f64", &again), RETILE_OK) << retile_error_message();
  const PlanHandle owner(again);
  EXPECT_EQ(retile_plan_verify(again), RETILE_OK) << retile_error_message();
  std::string wrong = json;
  wrong.replace(wrong.find("\"total\":4"), 9, "\"total\":3");
  ASSERT_EQ(retile_plan_parse(wrong.c_str(), "f64", &again), RETILE_OK) << retile_error_message();
  const PlanHandle liar(again);
  EXPECT_EQ(retile_plan_verify(again), RETILE_RUN_ERROR);
}

TEST(CInterface, cuts_text_that_is_too_long) {
  const LayoutHandle layout = layout_of(mesh_of("a=2"), "[2{a}4]");
  std::array<char, 4> text{};
  std::size_t length = 0;
  EXPECT_EQ(retile_layout_text(layout.get(), text.data(), text.size(), &length), RETILE_OK);
  EXPECT_STREQ(text.data(), "[2{");
  EXPECT_EQ(length, 7U);
}

TEST(CInterface, says_what_is_wrong_and_leaves_results_alone) {
  const MeshHandle mesh = mesh_of("a=2");
  retile_layout* layout = nullptr;
  EXPECT_EQ(retile_layout_parse(mesh.get(), "[2{b}4]", &layout), RETILE_INPUT_ERROR);
  EXPECT_EQ(layout, nullptr);
  EXPECT_THAT(retile_error_message(), StartsWith("layout:1:4: error: "));
  EXPECT_THAT(retile_error_message(), HasSubstr("^"));
  const int axis = 7;
  const std::int64_t size = 4;
  const int one = 1;
  EXPECT_EQ(retile_layout_create(mesh.get(), 1, &size, &one, &axis, &layout), RETILE_INPUT_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("axis 7 is not one of the mesh"));

  const LayoutHandle source = layout_of(mesh, "[2{a}4]");
  const LayoutHandle target = layout_of(mesh, "[4]");
  retile_plan* plan = nullptr;
  EXPECT_EQ(retile_plan_create(source.get(), target.get(), "float", nullptr, &plan), RETILE_INPUT_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("unknown element type 'float'"));
  retile_plan_options options{};
  options.memory_limit = 8;
  EXPECT_EQ(retile_plan_create(source.get(), target.get(), "f32", &options, &plan), RETILE_INPUT_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("the smallest limit that works is 24 bytes"));
  options = {"fast", nullptr, 0};
  EXPECT_EQ(retile_plan_create(source.get(), target.get(), "f32", &options, &plan), RETILE_INPUT_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("unknown planner 'fast'"));
  EXPECT_EQ(plan, nullptr);

  const RunHandle run = run_of(plan_of(source, target, "f32"), threads());
  std::vector<float> memory(4);
  const std::array<const void*, 2> sources{memory.data(), nullptr};
  const std::array<void*, 2> targets{memory.data(), memory.data()};
  EXPECT_EQ(retile_run_execute(run.get(), sources.data(), targets.data()), RETILE_RUN_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("the source of device 1"));
}

TEST(CInterface, refuses_null) {
  retile_mesh* mesh = nullptr;
  retile_run* run = nullptr;
  int done = 0;
  EXPECT_EQ(retile_mesh_parse(nullptr, &mesh), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: the argument mesh is NULL");
  EXPECT_EQ(retile_mesh_parse("a=2", nullptr), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_layout_parse(nullptr, "[4]", nullptr), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_plan_verify(nullptr), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_run_create(nullptr, nullptr, nullptr, nullptr, &run), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_run_execute(nullptr, nullptr, nullptr), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_run_test(nullptr, &done), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_run_statistics(nullptr, nullptr), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_transfer_run(nullptr, nullptr, 0, &run), RETILE_INPUT_ERROR);
  EXPECT_EQ(retile_mesh_devices(nullptr), 0);
  EXPECT_EQ(retile_plan_cost(nullptr), 0);
  retile_mesh_free(nullptr);
  retile_layout_free(nullptr);
  retile_plan_free(nullptr);
  retile_engine_free(nullptr);
  retile_transfer_free(nullptr);
  retile_run_free(nullptr);
}

}  // namespace
}  // namespace retile::c::test
