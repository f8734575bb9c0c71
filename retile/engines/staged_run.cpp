#include "retile/engines/staged_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace retile {
namespace {

std::int64_t most_of(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace

StagedRun::StagedRun(std::shared_ptr<Backend> backend, std::int64_t device_count)
    : backend_(std::move(backend)),
      devices_(backend_->devices(device_count)),
      out_of_memory_(place_of("") + "out of memory") {}

void StagedRun::start(Sources sources, Targets targets) {
  set_out(sources, targets, {});
  launch();
}

bool StagedRun::test() {
  if (thread_.valid()) {
    if (thread_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    thread_.get();
  } else if (is_begun_) {
    guarded([&] {
      if (!is_done() && !backend().advance_begun() && !advance()) backend().look_for_failure();
    });
    if (!is_done()) return false;
    leave();
  }
  return true;
}

void StagedRun::wait() {
  if (thread_.valid()) return thread_.get();
  if (is_begun_) finish();
}

void StagedRun::run(Sources sources, Targets targets) {
  set_out(sources, targets, {});
  finish();
}

RunStatistics StagedRun::execute(Sources sources, Targets targets) {
  run(sources, targets);
  return statistics();
}

RunStatistics StagedRun::statistics() {
  wait();
  RunStatistics statistics;
  statistics.received.resize(devices_.size());
  std::int64_t staged = 0;
  for (const RunPart& part : parts_) {
    statistics.staging.push_back(part.staging);
    staged = std::max(staged, most_of(part.staging));
    if (part.streams == nullptr) continue;
    std::transform(statistics.received.begin(), statistics.received.end(), part.streams->received().begin(),
                   statistics.received.begin(), std::plus<>());
  }
  std::int64_t figures[] = {most_of(statistics.received), staged, peaks_.predicted + staged, peaks_.measured + staged};
  backend().processes().most(figures);
  statistics.received_max = figures[0];
  statistics.staging_max = figures[1];
  statistics.peak_predicted = figures[2];
  statistics.peak_measured = figures[3];
  statistics.seconds = backend().seconds_between(start_, end_);
  return statistics;
}

void StagedRun::free_scratch() {
  wait();
  free_staging();
}

StagedRun::Sources StagedRun::as_sources(Targets tiles) {
  const std::byte* const* const first = tiles.data();
  return {first, tiles.size()};
}

void StagedRun::set_out(Sources sources, Targets targets, RoundDone done) {
  require_idle();
  next_ = parts_.size();
  guarded([&] { require_ready(sources, targets); });
  sources_.assign(sources.begin(), sources.end());
  targets_.assign(targets.begin(), targets.end());
  done_ = std::move(done);
  start_ = now();
  next_ = 0;
  state_ = PartState::waiting;
  queued_ = nullptr;
}

void StagedRun::set_out() {
  require_idle();
  done_ = {};
  next_ = parts_.size();
}

void StagedRun::require_idle() {
  if (const char* failure = backend().failure()) throw RuntimeError(std::string("an earlier run failed: ") + failure);
  const bool has_thread = thread_.valid();  // which changes what is asked here
  if (!has_thread && is_begun_ && (is_done() || (next_ == parts_.size() && backend().may_queue_executions()))) leave();
  if (has_thread || is_begun_) throw RuntimeError("a run is started before the one before it is done");
}

void StagedRun::launch() {
  switch (backend().progress()) {
    case Backend::Progress::in_a_thread:
      thread_ = std::async(std::launch::async, [this] { finish(); });
      return;
    case Backend::Progress::at_start:
      return finish();
    case Backend::Progress::when_advanced:
      backend().begin(*this);
      is_begun_ = true;
      guarded([&] { advance(); });
  }
}

void StagedRun::finish() {
  guarded([&] {
    const std::unique_lock turn = backend().take_turn();
    backend().finish(*this);
  });
  leave();
}

class StagedRun::PartWork final : public Work {
 public:
  PartWork(StagedRun& run, std::size_t number, const TilePointers& tiles)
      : run_(run), part_(run.parts_[number]), tiles_(tiles) {}
  bool advance() override { return run_.advance_part(part_, tiles_); }
  bool is_done() const override { return run_.state_ == PartState::done; }

 private:
  StagedRun& run_;
  RunPart& part_;
  const TilePointers tiles_;
};

void StagedRun::finish_part(std::size_t number, const TilePointers& tiles) {
  next_ = number;
  state_ = PartState::waiting;
  PartWork work(*this, number, tiles);
  backend().finish(work);
}

void StagedRun::finish_queued() {
  if (const std::unique_ptr<Work> queued = backend().queued()) backend().finish(*queued);
}

void StagedRun::record(std::int64_t start, Peaks peaks) {
  start_ = start;
  end_ = now();
  peaks_ = peaks;
}

void StagedRun::free_staging() {
  if (staging_user_ != nullptr && staging_user_->is_staging_read()) {
    backend().retire(std::move(staging_user_), std::move(staging_));
  }
  staging_user_ = nullptr;
  staging_ = Buffer();
}

void StagedRun::end() {
  try {
    wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch): nobody is left to hear of it
  }
  leave();
  free_staging();
  for (RunPart& part : parts_) {
    if (part.streams != nullptr && part.streams->is_staging_read()) backend().retire(part.streams, Buffer());
  }
}

bool StagedRun::advance() {
  if (is_done()) return false;
  bool has_worked = false;
  while (next_ < parts_.size()) {
    if (state_ == PartState::waiting) tiles_ = tiles_of(parts_[next_]);
    has_worked = advance_part(parts_[next_], tiles_) || has_worked;
    if (state_ != PartState::done) return has_worked;
    state_ = PartState::waiting;
    if (++next_ == parts_.size()) queued_ = backend().queued();
  }
  if (!is_done()) has_worked = queued_->advance() || has_worked;
  if (is_done()) record(start_, peaks());
  return has_worked;
}

bool StagedRun::advance_part(RunPart& part, const TilePointers& tiles) {
  if (part.reduction) {
    combine(part, tiles);
    state_ = PartState::done;
    return true;
  }
  if (state_ == PartState::waiting && !begin(part, tiles)) return false;
  state_ = PartState::under_way;
  const bool has_worked = part.streams->advance();
  if (!part.streams->is_done()) return has_worked;
  if (done_) {  // in place, what is staged goes with its phase
    if (part.streams->is_staging_read()) return has_worked;
    free_staging();
  }
  state_ = PartState::done;
  return true;
}

bool StagedRun::begin(RunPart& part, const TilePointers& tiles) {
  const bool is_first = part.from == 0;
  const SourceMemory memory = done_ && is_first   ? SourceMemory::donated
                              : are_shared(tiles) ? SourceMemory::shared
                                                  : SourceMemory::own;
  part.staging = part.streams->staging(memory);
  const std::int64_t needed = std::accumulate(part.staging.begin(), part.staging.end(), std::int64_t{0});
  const bool is_too_small = needed > static_cast<std::int64_t>(staging_.size());
  if (needed > 0) {
    const bool is_others = staging_user_ != part.streams || is_too_small;
    if (is_others && staging_user_ != nullptr && staging_user_->is_staging_read()) return false;
    if (is_too_small) {
      staging_ = Buffer();
      staging_ = backend().allocate(static_cast<std::size_t>(needed));
    }
    staging_user_ = part.streams;
  }
  const std::span<std::byte> staging(staging_.begin(), static_cast<std::size_t>(needed));
  if (memory == SourceMemory::donated) {
    part.streams->start_rounds(tiles, staging, done_);
  } else {
    part.streams->start(tiles, memory, staging);
  }
  return true;
}

void StagedRun::leave() {
  if (is_begun_) backend().end(*this);
  is_begun_ = false;
}

bool StagedRun::are_shared(const TilePointers& tiles) const {
  return std::all_of(tiles.sources.begin(), tiles.sources.end(),
                     [&](const std::byte* tile) { return tile == nullptr || backend().is_shared(tile); });
}

std::string StagedRun::place_of(const std::string& step) const {
  const std::string place = backend().where();
  if (place.empty()) return "";
  return step.empty() ? place + ": " : fmt::format("{}, {}: ", place, step);
}

}  // namespace retile
