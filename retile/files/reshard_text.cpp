// Plans and reports of resharding, as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "retile/base/json.h"
#include "retile/files/file.h"
#include "retile/files/reshard.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string to_string(const ReshardJob& job) {
  std::int64_t largest = 0;
  for (const TargetFile& file : job.target_files) largest = std::max(largest, file.contents->bytes);
  const auto count = [](std::size_t number, const char* noun) {
    return count_of(static_cast<std::int64_t>(number), noun);
  };
  return fmt::format(
      "{} -> {}: {} of {} to {}, of {} bytes at most\n"
      "read     {} bytes, each once\n"
      "written  {} bytes\n"
      "memory   {} bytes and {} of the program (cap {}); {}\n",
      job.request.source, job.request.target, count(job.source.tensors.size(), "tensor"),
      count(job.source.files.size(), "file"), count(job.target_files.size(), "file"), group_digits(largest),
      group_digits(job.read_bytes()), group_digits(job.written_bytes()), group_digits(job.memory_bytes),
      group_digits(job.program_bytes), group_digits(job.request.max_bytes), count_of(job.threads, "thread"));
}

std::string to_json(const ReshardJob& job) {
  Json files = Json::array();
  for (const TargetFile& file : job.target_files)
    files.push_back({{"name", file.name}, {"bytes", file.contents->bytes}});
  const Json json{{"format", json_format},
                  {"source", utf8_of(job.request.source)},
                  {"target", utf8_of(job.request.target)},
                  {"tensors", job.source.tensors.size()},
                  {"source_files", job.source.files.size()},
                  {"target_files", files},
                  {"read_bytes", job.read_bytes()},
                  {"written_bytes", job.written_bytes()},
                  {"threads", job.threads},
                  {"slab_bytes", job.slab_bytes},
                  {"program_bytes", job.program_bytes},
                  {"max_bytes", job.request.max_bytes}};
  return json.dump() + "\n";
}

std::string to_string(const ReshardReport& report, const ReshardJob& job) {
  return fmt::format("{}done in {:.3f} s, peak {} of {} bytes\n", report.verified ? "verified, " : "", report.seconds,
                     group_digits(report.peak_bytes), group_digits(job.request.max_bytes));
}

std::string to_json(const ReshardReport& report, const ReshardJob& job) {
  const Json json{{"format", json_format},
                  {"source", utf8_of(job.request.source)},
                  {"target", utf8_of(job.request.target)},
                  {"seconds", report.seconds},
                  {"read_bytes", job.read_bytes()},
                  {"written_bytes", job.written_bytes()},
                  {"peak_bytes", report.peak_bytes},
                  {"max_bytes", job.request.max_bytes},
                  {"verified", report.verified}};
  return json.dump() + "\n";
}

}  // namespace retile::files
