// Plans and reports of rechunking, as text and as JSON.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "retile/base/json.h"
#include "retile/files/file.h"
#include "retile/files/rechunk.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

std::string type_of(const StoredArray& array) {
  return array.element.numpy.empty() ? fmt::format("{}-byte elements", array.element.bytes) : numpy_type(array.element);
}

const char* name_of(Format format) {
  constexpr const char* names[] = {"npy", "zarr2", "zarr3", "hdf5"};
  return names[static_cast<std::size_t>(format)];
}

std::string codecs_of(const StoredArray& array) {
  std::string text;
  for (const Codec& codec : array.codecs) text += fmt::format("{}{}", text.empty() ? "" : "+", name_of(codec.kind));
  return text.empty() ? "" : " " + text;
}

std::string chunks_of(const StoredArray& array) {
  return fmt::format("{} of {} bytes{}{}", text_of(array.chunk), group_digits(array.chunk_bytes()), codecs_of(array),
                     array.shards ? fmt::format(" in shards of {}", text_of(array.shards->shape)) : "");
}

std::string times(std::int64_t bytes, std::int64_t least) {
  return fmt::format("{:.3f} times", static_cast<double>(bytes) / static_cast<double>(least));
}

std::string pass_text(const PassPlan& pass, std::size_t number, int ranks) {
  const std::string way =
      pass.mode == ReadMode::ranges ? "byte ranges" : fmt::format("units of {}", text_of(pass.problem.source.unit));
  const std::string sweep = pass.swept ? fmt::format(" swept along dimension {}", *pass.swept) : "";
  return fmt::format("pass {}   {} of {}{}, read in {}; {}{}, {} open\n", number, count_of(pass.regions, "region"),
                     text_of(pass.region), sweep, way, ranks > 1 ? fmt::format("{} ranks, ", ranks) : "",
                     count_of(pass.threads, "thread"), count_of(pass.open_chunks, "chunk"));
}

// Why there are as many passes as there are.
std::string choice_text(const RechunkPlan& plan) {
  std::vector<std::string> others;
  const std::size_t tried = plan.seconds_by_passes.size();
  for (std::size_t i = 0; i < tried; ++i) {
    const double seconds = plan.seconds_by_passes[i];
    if (i + 1 == plan.passes.size() || std::isinf(seconds)) continue;
    others.push_back(fmt::format("{:.3g} s in {}", seconds, i == 0 ? "1 pass" : fmt::format("{} passes", i + 1)));
  }
  others.push_back(fmt::format("{:.3g} s at least in {} or more", plan.more_seconds, tried + 1));
  return fmt::format("time     {:.3g} s by the costs of a disk; {}\n", plan.seconds(), fmt::join(others, ", "));
}

std::int64_t least_cap(const ArrayJob& array, const RechunkJob& job) {
  return array.plan->bounds.least_memory_bytes + array.index_bytes + job.program_bytes;
}

std::string array_text(const ArrayJob& array, const RechunkJob& job) {
  std::string text =
      fmt::format("{} -> {}: {} {}, {} bytes\n", array.source.path, array.target.path, type_of(array.source),
                  text_of(array.source.shape), group_digits(array.source.array_bytes()));
  if (!array.plan) return text;
  const RechunkPlan& plan = *array.plan;
  const RechunkBounds& bounds = plan.bounds;
  text += fmt::format("chunks   {} -> {}\n", chunks_of(array.source), chunks_of(array.target));
  std::int64_t requests = 0;
  for (std::size_t i = 0; i < plan.passes.size(); ++i) {
    text += pass_text(plan.passes[i], i + 1, job.request.processes->size());
    requests += plan.passes[i].requests;
    if (i + 1 < plan.passes.size()) {
      text += fmt::format("between  chunks of {}, without compression\n", text_of(plan.passes[i].problem.target.chunk));
    }
  }
  text += fmt::format("read     {} bytes, {} the least\n", group_digits(plan.read_bytes()),
                      times(plan.read_bytes(), bounds.least_read_bytes));
  text += fmt::format("written  {} bytes, {} the least; {}\n", group_digits(plan.written_bytes()),
                      times(plan.written_bytes(), bounds.least_written_bytes), count_of(requests, "request"));
  text += choice_text(plan);
  text += fmt::format("memory   {} bytes and {} of the program (cap {}, at least {})\n",
                      group_digits(plan.memory_bytes() + array.index_bytes), group_digits(job.program_bytes),
                      group_digits(job.request.max_bytes), group_digits(least_cap(array, job)));
  return text;
}

Json pass_json(const PassPlan& pass) {
  return {{"reads", pass.mode == ReadMode::ranges ? "ranges" : "units"},
          {"unit", pass.problem.source.unit},
          {"swept", pass.swept ? Json(*pass.swept) : Json()},
          {"region", pass.region},
          {"regions", pass.regions},
          {"chunks", pass.problem.target.chunk},
          {"open_chunks", pass.open_chunks},
          {"threads", pass.threads},
          {"read_bytes", pass.read_bytes},
          {"written_bytes", pass.written_bytes},
          {"requests", pass.requests},
          {"memory_bytes", pass.memory_bytes}};
}

Json array_json(const ArrayJob& array, const RechunkJob& job) {
  Json json{{"format", json_format},
            {"source", utf8_of(array.source.path)},
            {"target", utf8_of(array.target.path)},
            {"formats", {name_of(array.source.format), name_of(array.target.format)}},
            {"dtype", type_of(array.source)},
            {"shape", array.source.shape},
            {"source_chunks", array.source.chunk},
            {"target_chunks", array.target.chunk},
            {"max_bytes", job.request.max_bytes},
            {"program_bytes", job.program_bytes},
            {"ranks", job.request.processes->size()}};
  if (!array.plan) return json;
  const RechunkBounds& bounds = array.plan->bounds;
  json["passes"] = Json::array();
  for (const PassPlan& pass : array.plan->passes) json["passes"].push_back(pass_json(pass));
  json["read_bytes"] = array.plan->read_bytes();
  json["least_read_bytes"] = bounds.least_read_bytes;
  json["written_bytes"] = array.plan->written_bytes();
  json["least_written_bytes"] = bounds.least_written_bytes;
  json["least_passes"] = bounds.least_passes;
  json["seconds"] = array.plan->seconds();
  json["seconds_by_passes"] = Json::array();  // null where none was found
  for (const double seconds : array.plan->seconds_by_passes)
    json["seconds_by_passes"].push_back(std::isinf(seconds) ? Json() : Json(seconds));
  json["more_passes_seconds"] = array.plan->more_seconds;
  json["least_max_bytes"] = least_cap(array, job);
  return json;
}

}  // namespace

std::string to_string(const RechunkJob& job) {
  std::string text;
  for (const ArrayJob& array : job.arrays) text += array_text(array, job);
  return text;
}

std::string to_json(const RechunkJob& job) {
  std::string text;
  for (const ArrayJob& array : job.arrays) text += array_json(array, job).dump() + "\n";
  return text;
}

std::string to_string(const RechunkReport& report, const RechunkJob& job) {
  return fmt::format("{}done in {:.3f} s: {} bytes read, {} written, peak {} of {} bytes\n",
                     report.verified ? "verified, " : "", report.seconds, group_digits(report.read_bytes),
                     group_digits(report.written_bytes), group_digits(report.peak_bytes),
                     group_digits(job.request.max_bytes));
}

std::string to_json(const RechunkReport& report, const RechunkJob& job) {
  const Json json{{"format", json_format},
                  {"source", utf8_of(job.request.source)},
                  {"target", utf8_of(job.request.target)},
                  {"arrays", job.arrays.size()},
                  {"seconds", report.seconds},
                  {"read_bytes", report.read_bytes},
                  {"written_bytes", report.written_bytes},
                  {"peak_bytes", report.peak_bytes},
                  {"max_bytes", job.request.max_bytes},
                  {"verified", report.verified}};
  return json.dump() + "\n";
}

}  // namespace retile::files
