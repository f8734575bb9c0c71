#include "retile/runtime/program_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/base/mixing.h"
#include "retile/language/memory.h"
#include "retile/language/type_text.h"
#include "retile/memory/available_memory.h"
#include "retile/runtime/arguments.h"
#include "retile/runtime/elements.h"
#include "retile/runtime/npy.h"
#include "retile/runtime/results.h"
#include "retile/runtime/runtime.h"
#include "retile/types/text.h"

namespace retile::runtime {
namespace {

using language::Function;
using language::LoweredProgram;
using language::Program;

constexpr std::int64_t most_elements_shown = 8;

std::vector<language::Value> parameters_of(const Program& program) {
  const Function& main = main_of(program);
  return {main.values.begin(), main.values.begin() + main.parameter_count};
}

std::vector<language::Value> results_of(const Program& program) {
  std::vector<language::Value> results;
  for (const int value : main_of(program).results) {
    results.push_back(at(main_of(program).values, value));
  }
  return results;
}

// --- What fits the main function.

void require_names(const std::map<std::string, std::string>& files, const std::vector<language::Value>& values,
                   const std::string& what, const std::string& all) {
  std::vector<std::string> names;
  for (const language::Value& value : values) names.push_back(value.name);
  for (const auto& [name, path] : files) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw InputError(fmt::format("there is no {} '{}'", what, name),
                     names.empty() ? fmt::format("{} none", all) : fmt::format("{} {}", all, fmt::join(names, ", ")));
  }
}

void require_no_sums(const Program& program, const std::vector<language::Value>& values, const std::string& what) {
  for (const language::Value& value : values) {
    if (value.type.partial.empty()) continue;
    throw InputError(diagnose(*program.source, value.range,
                              fmt::format("the main function cannot {} '{}' in a run: it is a {}", what, value.name,
                                          name_of(value.type.reduction)),
                              "parts of sums are for between functions: redistribute them"));
  }
}

void check_options(const Program& program, const ProgramRunOptions& options) {
  require_names(options.arguments, parameters_of(program), "parameter", "the main function's parameters are");
  require_names(options.outputs, results_of(program), "result", "the main function returns");
  require_no_sums(program, parameters_of(program), "take");
  require_no_sums(program, results_of(program), "return");
}

// --- Memory.

// Per device, for boxes and the allocations of tiles.
constexpr std::int64_t bookkeeping_bytes = 1024;

// A verification has at most the results, the tiles and as much again in global arrays.
void require_available(std::int64_t predicted, std::int64_t devices, bool verify) {
  const auto per_device = checked_add(predicted, bookkeeping_bytes);
  const auto needed = checked_multiply(per_device.value_or(INT64_MAX), devices * (verify ? 3 : 1));
  const std::optional<std::int64_t> available = available_memory();
  if (needed && (!available || *needed <= *available)) return;
  throw RuntimeError(fmt::format("the program needs {} bytes on each of {} devices{}, and {} are free in all",
                                 predicted, devices, verify ? ", three times that to be verified" : "",
                                 available.value_or(0)));
}

// --- Arguments.

ReadBox open_file(const std::string& path, const language::Value& parameter) {
  const auto reader = std::make_shared<NpyReader>(path);
  const NpyHeader& header = reader->header();
  const Shape& shape = parameter.type.placement.global_shape();
  if (header.element != parameter.type.element) {
    throw InputError(fmt::format("{}: it holds {} elements, and '{}' has {}", path, name_of(header.element),
                                 parameter.name, name_of(parameter.type.element)),
                     {});
  }
  if (header.shape != shape) {
    throw InputError(fmt::format("{}: its shape is {}, and that of '{}' is {}", path, to_string(header.shape),
                                 parameter.name, to_string(shape)),
                     {});
  }
  return [reader](const Box& box, std::byte* out) { reader->read_box(box, out); };
}

// Where each of the main function's arguments comes from.
std::vector<ReadBox> argument_sources(const Program& program, const ProgramRunOptions& options) {
  std::vector<ReadBox> sources;
  for (const language::Value& parameter : parameters_of(program)) {
    const auto file = options.arguments.find(parameter.name);
    const std::uint64_t seed = mix_bits(options.seed ^ mix_bits(sources.size()));
    sources.push_back(file == options.arguments.end()
                          ? made_up_array(parameter.type.element, parameter.type.placement.global_shape(), seed)
                          : open_file(file->second, parameter));
  }
  return sources;
}

std::vector<TileBuffers> read_arguments(const Program& program, const std::vector<ReadBox>& sources,
                                        const std::vector<Device>& devices) {
  std::vector<TileBuffers> arguments;
  for (const language::Value& parameter : parameters_of(program)) {
    arguments.push_back(read_tiles(parameter.type, devices, sources[arguments.size()]));
  }
  return arguments;
}

// --- Verification.

// The first element in which a tile differs from what it should be.
std::optional<std::string> find_difference(const language::Value& value, Device device, const Buffer& tile,
                                           const Buffer& expected) {
  if (tile == expected) return std::nullopt;
  const std::int64_t size = bytes_of(value.type.element);
  const std::int64_t number = (std::mismatch(tile.begin(), tile.end(), expected.begin()).first - tile.begin()) / size;
  return fmt::format("element {} of '{}' on device {} is {} instead of {}",
                     to_string(element_index(value.type.placement, device, number)), value.name, device,
                     format_element(value.type.element, tile.data() + number * size),
                     format_element(value.type.element, expected.data() + number * size));
}

std::optional<std::string> compare_with_slicing(const LoweredProgram& lowered, const std::vector<ReadBox>& sources,
                                                const std::vector<TileBuffers>& results,
                                                const AfterStatement& after_statement, Engine& engine) {
  const Program& program = lowered.program;
  const std::int64_t device_count = program.mesh.device_count();
  std::optional<std::string> difference;
  engine.processes().do_together([&] {
    const ProgramRun expected =
        run_by_slicing(lowered, read_arguments(program, sources, all_devices(device_count)), after_statement);
    const std::vector<Device> devices = engine.devices(device_count);
    const std::vector<language::Value> values = results_of(program);
    for (std::size_t r = 0; r < values.size() && !difference; ++r) {
      for (std::size_t i = 0; i < devices.size() && !difference; ++i) {
        difference = find_difference(values[r], devices[i], results[r][i], at(expected.results[r], devices[i]));
      }
    }
  });
  return engine.processes().first_text(difference);
}

// --- Results.

ResultReport report_result(const Program& program, const language::Value& value, const TileBuffers& tiles,
                           Engine& engine) {
  ResultReport report;
  report.name = value.name;
  report.type = to_string(program.mesh, value.type);
  report.shape = value.type.placement.global_shape();
  report.checksum = checksum(program.mesh, value.type, tiles, engine);
  report.elements = first_elements(program.mesh, value.type, tiles, engine, most_elements_shown);
  return report;
}

}  // namespace

ProgramReport run_and_report(const LoweredProgram& lowered, Engine& engine, const ProgramRunOptions& options) {
  const Program& program = lowered.program;
  check_options(program, options);
  std::vector<ReadBox> sources;
  engine.processes().do_together([&] { sources = argument_sources(program, options); });
  ProgramReport report;
  report.engine = engine.name();
  report.devices = program.mesh.device_count();
  report.peak_bytes_predicted = find_memory_peak(lowered, engine.memory()).bytes;
  engine.processes().do_together([&] {
    require_available(report.peak_bytes_predicted, engine.devices_on_machine(report.devices), options.verify);
  });
  const std::vector<Device> devices = engine.devices(report.devices);
  ProgramRunner runner(lowered, engine, options.after_statement);
  ProgramRun run;
  for (int i = 0; i < options.repetitions; ++i) {
    run = {};
    std::vector<TileBuffers> arguments;
    engine.processes().do_together([&] { arguments = read_arguments(program, sources, devices); });
    run = runner.run(std::move(arguments));
    report.seconds.push_back(run.seconds);
  }
  report.peak_bytes_measured = run.peak_bytes;
  if (options.verify) {
    report.difference = compare_with_slicing(lowered, sources, run.results, options.after_statement, engine);
    report.verified = !report.difference;
  }
  const std::vector<language::Value> values = results_of(program);
  for (std::size_t r = 0; r < values.size(); ++r) {
    report.results.push_back(report_result(program, values[r], run.results[r], engine));
    const auto file = options.outputs.find(values[r].name);
    if (file == options.outputs.end()) continue;
    write_npy(file->second, program.mesh, values[r].type, run.results[r], engine);
  }
  return report;
}

std::int64_t count_statements(const Program& program, const ProgramRunOptions& options) {
  const std::int64_t runs = std::int64_t{options.repetitions} + (options.verify ? 1 : 0);
  return checked_multiply(count_statements(program), runs).value_or(INT64_MAX);
}

std::string to_json(const ProgramReport& report) {
  nlohmann::ordered_json json;
  json["format"] = json_format;
  json["engine"] = report.engine;
  json["devices"] = report.devices;
  if (report.verified || report.difference) json["verified"] = report.verified;
  json["results"] = nlohmann::ordered_json::array();
  for (const ResultReport& result : report.results) {
    json["results"].push_back({{"name", result.name},
                               {"type", result.type},
                               {"shape", result.shape},
                               {"checksum", fmt::format("{:#018x}", result.checksum)},
                               {"elements", result.elements}});
  }
  json["seconds"] = report.seconds;
  json["peak_bytes"] = {{"predicted", report.peak_bytes_predicted}, {"measured", report.peak_bytes_measured}};
  return json.dump();
}

}  // namespace retile::runtime
