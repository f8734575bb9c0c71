#include "retile/rechunk.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "retile/files/codec_option.h"
#include "retile/files/rechunk.h"

namespace retile {
namespace {

files::RechunkRequest request_of(const RechunkSettings& settings) {
  files::RechunkRequest request;
  request.source = settings.source;
  request.target = settings.target;
  request.chunks = files::parse_chunk_sizes({"argument --chunks", settings.chunks});
  if (settings.shards) request.shards = files::parse_chunk_sizes({"argument --shards", *settings.shards});
  if (settings.format) {
    if (*settings.format != "zarr2" && *settings.format != "zarr3") {
      throw InputError("'" + *settings.format + "' is no format of stores", "one of: zarr2, zarr3");
    }
    request.format = *settings.format == "zarr2" ? files::Format::zarr2 : files::Format::zarr3;
  }
  request.codecs = files::parse_codec({"argument --codec", settings.codec});
  request.max_bytes = settings.max_bytes;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  request.threads = settings.threads > 0 ? settings.threads : std::max(1, cores);
  request.scratch = settings.scratch;
  if (settings.processes != nullptr) request.processes = settings.processes;
  return request;
}

}  // namespace

Rechunk::Rechunk(RechunkSettings settings)
    : settings_(std::move(settings)),
      job_(std::make_unique<const files::RechunkJob>(files::prepare_rechunk(request_of(settings_)))) {}

Rechunk::~Rechunk() = default;

std::int64_t Rechunk::read_bytes() const { return job_->read_bytes(); }

files::RechunkReport Rechunk::run(const std::function<void(std::int64_t)>& report) const {
  return files::run_rechunk(*job_, {settings_.existing, settings_.verify, report});
}

std::string Rechunk::to_string() const { return files::to_string(*job_); }
std::string Rechunk::to_json() const { return files::to_json(*job_); }
std::string Rechunk::to_string(const files::RechunkReport& report) const { return files::to_string(report, *job_); }
std::string Rechunk::to_json(const files::RechunkReport& report) const { return files::to_json(report, *job_); }

}  // namespace retile
