#include "retile/evaluation/results.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <thread>

#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/costs/cost_model.h"
#include "retile/types/text.h"
#include "retile/version.h"

namespace retile {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The rest of the first line of a file of /proc that starts with the name; empty where there is none.
std::string system_entry(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return {};
}

Json machine_json() {
  utsname system{};
  const bool known = uname(&system) == 0;
  Json json;
  json["cpu"] = system_entry("/proc/cpuinfo", "model name");
  json["cores"] = std::thread::hardware_concurrency();
  json["memory_bytes"] = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  json["system"] = known ? fmt::format("{} {}", system.sysname, system.release) : "unknown";
  return json;
}

std::string date_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json axes_json(const DistributedType& type) {
  Json dimensions = Json::array();
  for (const Dimension& dimension : type.dimensions()) {
    Json axes = Json::array();
    for (const AxisPart& part : dimension.axes) axes.push_back(type.mesh().axis(part.axis).name);
    dimensions.push_back(std::move(axes));
  }
  return dimensions;
}

Json problem_json(const Problem& problem) {
  Json json;
  json["id"] = problem.id();
  for (int i = 0; i < problem.mesh().axis_count(); ++i) {
    json["mesh"][problem.mesh().axis(i).name] = problem.mesh().axis(i).size;
  }
  json["shape"] = problem.source().global_shape();
  json["src"] = axes_json(problem.source());
  json["dst"] = axes_json(problem.target());
  json["dtype"] = name_of(problem.element_type());
  return json;
}

Json cost_json(const Plan& plan) {
  return {{"paper", price(paper_model(), plan.movement).total},
          {"volume", price(volume_model(), plan.movement).total},
          {"lower_bound", plan.cost.lower_bound},
          {"floor", plan.cost.floor},
          {"optimal", plan.cost.optimal}};
}

void add_plan(const std::optional<Plan>& plan, Json& json) {
  json["steps"] = Json::array();
  json["cost"] = nullptr;
  json["memory"] = nullptr;
  json["planning_ns"] = nullptr;
  if (!plan) return;
  for (const Step& step : plan->steps()) json["steps"].push_back(to_string(step));
  json["cost"] = cost_json(*plan);
  json["memory"] = {{"source", plan->memory.source},
                    {"target", plan->memory.target},
                    {"bound", plan->memory.bound},
                    {"peak", plan->memory.peak}};
  json["planning_ns"] = plan->planning_ns;
}

}  // namespace

std::string to_json(const RunRecord& run) {
  Json json;
  json["version"] = RETILE_VERSION;
  json["commit"] = run.commit;
  json["date"] = date_now();
  json["machine"] = machine_json();
  json["engine"] = run.engine;
  json["devices"] = run.devices;
  json["ranks"] = run.processes;
  json["threads"] = run.threads;
  json["seed"] = run.seed;
  json["scale"] = run.scale;
  json["repetitions"] = run.repetitions;
  if (run.problems.empty()) {
    json["options"] = {{"axes", run.sampling.axes},
                       {"rank", {run.sampling.least_rank, run.sampling.most_rank}},
                       {"bytes", {run.sampling.least_bytes, run.sampling.most_bytes}},
                       {"dtype", name_of(run.sampling.element_type)}};
  } else {
    json["options"] = {{"problems", run.problems}};
  }
  if (!run.transport.empty()) json["options"]["transport"] = run.transport;
  return line_of({{"run", std::move(json)}});
}

std::string to_json(const Problem& problem, const std::string& engine, const Contender& contender,
                    const Measurement& measurement) {
  Json json = problem_json(problem);
  json["engine"] = engine;
  json["contender"] = contender.name;
  add_plan(contender.plan, json);
  if (measurement.skipped) {
    json["skipped"] = *measurement.skipped;
    return line_of(json);
  }
  json["verified"] = true;
  json["seconds"] = measurement.seconds;
  json["received_bytes_max"] = measurement.statistics.received_max;
  json["peak_bytes"] = {{"predicted", measurement.statistics.peak_predicted},
                        {"measured", measurement.statistics.peak_measured}};
  return line_of(json);
}

std::string to_json(const Problem& problem, const std::string& engine, const std::string& contender,
                    const std::string& skipped) {
  Json json = problem_json(problem);
  json["engine"] = engine;
  json["contender"] = contender;
  add_plan(std::nullopt, json);
  json["skipped"] = skipped;
  return line_of(json);
}

ResultsFile::ResultsFile(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return;  // a new one
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t whole = all.rfind('\n') == std::string::npos ? 0 : all.rfind('\n') + 1;
  int number = 0;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = all.find('\n', begin);
    learn(all.substr(begin, end - begin), ++number);
    begin = end + 1;
  }
  if (whole == all.size()) return;
  std::error_code error;
  std::filesystem::resize_file(path_, whole, error);
  if (error) throw RuntimeError(fmt::format("{}: {}", path_, error.message()));
}

void ResultsFile::learn(const std::string& line, int number) {
  if (line.empty()) return;
  const SourceText source{path_, line, number};
  const JsonValue root = parse_json(source);
  const JsonReader reader(source, root, "the result");
  if (reader.has("run")) return;
  known_.insert({reader.member("id").string(), reader.member("engine").string(), reader.member("contender").string()});
}

void ResultsFile::append(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw RuntimeError(fmt::format("cannot write to {}", path_));
  for (const std::string& line : lines) learn(line, 1);
}

}  // namespace retile
