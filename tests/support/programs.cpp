#include "tests/support/programs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/language/checker.h"
#include "retile/language/memory.h"
#include "retile/runtime/arguments.h"
#include "tests/support/split_engine.h"

namespace retile::test {
namespace {

using language::ArrayType;
using language::LoweredProgram;
using runtime::ProgramRun;
using runtime::TileBuffers;

const language::Function& main_of(const LoweredProgram& lowered) { return main_of(lowered.program); }

template <typename Number>
double element_as_double(const std::byte* bytes) {
  Number number{};
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

std::vector<double> put_together(const ArrayType& type, const TileBuffers& tiles) {
  const std::int64_t size = bytes_of(type.element);
  const Shape& global = type.placement.global_shape();
  Tile whole = allocate_tile({Shape(global.size(), 0), global}, size);
  for (std::size_t device = 0; device < tiles.size(); ++device) {
    for (const Part& part : type.placement.parts(static_cast<Device>(device))) {
      copy_box(tiles[device].data(), retile::layout_of(part, size), whole.bytes.data(), whole.box, part.box, size);
    }
  }
  std::vector<double> elements;
  for (std::size_t i = 0; i < whole.bytes.size(); i += static_cast<std::size_t>(size)) {
    const std::byte* bytes = whole.bytes.data() + i;
    elements.push_back(type.element == ElementType::f32   ? element_as_double<float>(bytes)
                       : type.element == ElementType::f64 ? element_as_double<double>(bytes)
                                                          : element_as_double<std::int32_t>(bytes));
  }
  return elements;
}

// Runs on made-up arguments, and expects the prediction to hold to the byte.
ProgramRun run_as_predicted(const LoweredProgram& program, Engine& engine, std::uint64_t seed) {
  ProgramRun result = run(program, engine, seed);
  EXPECT_EQ(result.peak_bytes, find_memory_peak(program, engine.memory()).bytes) << engine.name();
  return result;
}

void expect_equal(const ProgramRun& run, const std::vector<Device>& devices, const ProgramRun& expected,
                  const std::string& what) {
  ASSERT_EQ(run.results.size(), expected.results.size());
  for (std::size_t r = 0; r < run.results.size(); ++r) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      EXPECT_TRUE(run.results[r][i] == expected.results[r][static_cast<std::size_t>(devices[i])])
          << what << ": result " << r << " on device " << devices[i];
    }
  }
}

}  // namespace

LoweredProgram program_of(const std::string& text, const PlanOptions& options) {
  return lower_program(language::read_program({"test.spmd", text}).program, options);
}

std::vector<TileBuffers> made_up_arguments(const LoweredProgram& program, const std::vector<Device>& devices,
                                           std::uint64_t seed) {
  std::vector<TileBuffers> arguments;
  for (std::size_t i = 0; i < static_cast<std::size_t>(main_of(program).parameter_count); ++i) {
    const ArrayType& type = main_of(program).values[i].type;
    arguments.push_back(runtime::read_tiles(
        type, devices,
        runtime::made_up_array(type.element, type.placement.global_shape(), mix_bits(seed ^ mix_bits(i)))));
  }
  return arguments;
}

std::vector<std::unique_ptr<Engine>> all_engines() {
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(make_reference_engine());
  engines.push_back(make_threads_engine());
  return engines;
}

ProgramRun run(const LoweredProgram& program, Engine& engine, std::uint64_t seed) {
  const std::vector<Device> devices = engine.devices(program.program.mesh.device_count());
  return runtime::run_program(program, engine, made_up_arguments(program, devices, seed));
}

ProgramRun run_everywhere(const LoweredProgram& program, std::uint64_t seed) {
  const std::vector<Device> devices = all_devices(program.program.mesh.device_count());
  ProgramRun expected = run(program, *make_reference_engine(), seed);
  for (const std::unique_ptr<Engine>& engine : all_engines()) {
    expect_equal(run_as_predicted(program, *engine, seed), devices, expected, engine->name());
  }
  expect_equal(runtime::run_by_slicing(program, made_up_arguments(program, devices, seed)), devices, expected,
               "slicing");
  for (const int processes : {2, 3}) {
    run_split(processes, [&](int process, Engine& engine) {
      expect_equal(run(program, engine, seed), engine.devices(program.program.mesh.device_count()), expected,
                   "process " + std::to_string(process));
    });
  }
  return expected;
}

std::vector<double> global_array(const LoweredProgram& program, const ProgramRun& run, std::size_t result) {
  const auto value = static_cast<std::size_t>(main_of(program).results[result]);
  return put_together(main_of(program).values[value].type, run.results[result]);
}

std::vector<double> global_argument(const LoweredProgram& program, std::size_t parameter, std::uint64_t seed) {
  const std::vector<Device> devices = all_devices(program.program.mesh.device_count());
  return put_together(main_of(program).values[parameter].type, made_up_arguments(program, devices, seed)[parameter]);
}

std::string failure_of(const LoweredProgram& program, Engine& engine) {
  try {
    run(program, engine);
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace retile::test
