#include "retile/engines/staged_run.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/copies/combine.h"
#include "retile/memory/tile_memory.h"
#include "retile/schedule/planned_streams.h"

namespace retile {
namespace {

using Place = KeptPlaces::Place;

// Bytes of a task that combines elements.
constexpr std::int64_t combined_bytes = 256 << 10;

// Senders of more devices are not chosen by their hosts: that takes a list of all pairs of tiles that meet.
constexpr std::int64_t most_devices_by_hosts = 1024;

template <typename Pointer>
std::vector<Pointer> pointers_to(std::vector<CountedBuffer>& tiles) {
  std::vector<Pointer> pointers;
  for (CountedBuffer& tile : tiles) pointers.push_back(tile.data());
  return pointers;
}

// The same tiles, to be read.
std::span<const std::byte* const> as_sources(std::span<std::byte* const> tiles) {
  const std::byte* const* const first = tiles.data();
  return {first, tiles.size()};
}

// A part of a run: pieces that move, or a reduction. Stops are where tiles are: 0 is the sources, the last one the
// targets. Pieces that are passed on go from a stop to itself.
struct RunPart {
  std::shared_ptr<PreparedStreams> streams;  // null for a reduction
  std::optional<ReduceStep> reduction;
  std::size_t from = 0;
  std::size_t to = 0;
  std::string step;                        // for messages: "step 2, exchange"; empty if there are no steps
  std::vector<std::int64_t> staging = {};  // bytes by device of this process, in the last execution
};

// What executions keep from one to the next.
struct KeptMemory {
  // Tiles between source and target, by device of this process.
  struct Scratch {
    std::vector<CountedBuffer> tiles;
    std::vector<std::byte*> pointers;
  };

  TileMemory memory;
  Scratch even = {};
  Scratch odd = {};
};

// Bytes of tiles that a device holds at once.
struct Peaks {
  std::int64_t predicted = 0;
  std::int64_t measured = 0;
};

// Executes parts one after the other. Where their tiles come from is for those below to say.
class StagedRun : public PreparedRun, private Work {
 public:
  using Sources = std::span<const std::byte* const>;
  using Targets = std::span<std::byte* const>;

  StagedRun(std::shared_ptr<Backend> backend, std::int64_t device_count)
      : backend_(std::move(backend)),
        devices_(backend_->devices(device_count)),
        out_of_memory_(place_of("") + "out of memory") {}

  void start(Sources sources, Targets targets) override {
    set_out(sources, targets, {});
    launch();
  }

  bool test() override {
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

  void wait() override {
    if (thread_.valid()) return thread_.get();
    if (is_begun_) finish();
  }

  void run(Sources sources, Targets targets) override {
    set_out(sources, targets, {});
    finish();
  }

  using PreparedRun::execute;
  RunStatistics execute(Sources sources, Targets targets) override {
    run(sources, targets);
    return statistics();
  }

  RunStatistics statistics() override {
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
    std::int64_t figures[] = {most_of(statistics.received), staged, peaks_.predicted + staged,
                              peaks_.measured + staged};
    backend().processes().most(figures);
    statistics.received_max = figures[0];
    statistics.staging_max = figures[1];
    statistics.peak_predicted = figures[2];
    statistics.peak_measured = figures[3];
    statistics.seconds = backend().seconds_between(start_, end_);
    return statistics;
  }

  void give_back(const std::byte* pages, std::size_t bytes) override { backend().give_back(pages, bytes); }
  void take(const std::byte* pages, std::size_t bytes) override { backend().take(pages, bytes); }

  void refuse(const std::string& why) override { backend().tell_failure(place_of("") + why); }

  void free_scratch() override {
    wait();
    free_staging();
  }

 protected:
  const std::vector<Device>& devices() const { return devices_; }
  Backend& backend() const { return *backend_; }
  const std::vector<RunPart>& parts() const { return parts_; }
  void add(RunPart part) { parts_.push_back(std::move(part)); }
  Sources sources() const { return sources_; }
  Targets targets() const { return targets_; }

  // Throws RuntimeError if the execution cannot go between these buffers. Makes what it needs.
  virtual void require_ready(Sources sources, Targets targets) = 0;
  // The lists live until the part is done.
  virtual TilePointers tiles_of(const RunPart& part) = 0;
  virtual void combine(const RunPart& part, const TilePointers& tiles) = 0;
  virtual Peaks peaks() const = 0;

  // Buffers are given round by round if there is somebody to tell when one is done.
  void set_out(Sources sources, Targets targets, RoundDone done) {
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

  void launch() {
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

  // All parts in this thread.
  void finish() {
    guarded([&] {
      const std::unique_lock turn = backend().take_turn();
      backend().finish(*this);
    });
    leave();
  }

  // One part between other tiles.
  void finish_part(std::size_t number, const TilePointers& tiles) {
    class PartWork final : public Work {
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
    next_ = number;
    state_ = PartState::waiting;
    PartWork work(*this, number, tiles);
    backend().finish(work);
  }
  void finish_queued() {
    if (const std::unique_ptr<Work> queued = backend().queued()) backend().finish(*queued);
  }

  // Adds the process and the step to what fails, and tells the other processes.
  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const RuntimeError& error) {
      leave();
      if (backend().failure() != nullptr) throw;  // of another process
      const std::string text = place_of(next_ < parts_.size() ? parts_[next_].step : "") + error.what();
      backend().tell_failure(text);
      throw RuntimeError(text);
    } catch (const std::bad_alloc&) {
      leave();
      backend().tell_failure(out_of_memory_);
      throw;
    } catch (const std::exception& error) {
      leave();
      backend().tell_failure(error.what());
      throw;
    }
  }

  // For tiles that are given part by part.
  void set_out() {
    require_idle();
    done_ = {};
    next_ = parts_.size();
  }

  void require_idle() {
    if (const char* failure = backend().failure()) throw RuntimeError(std::string("an earlier run failed: ") + failure);
    if (is_begun_ && (is_done() || (next_ == parts_.size() && backend().may_queue_executions()))) leave();
    if (thread_.valid() || is_begun_) throw RuntimeError("a run is started before the one before it is done");
  }

  void record(std::int64_t start, Peaks peaks) {
    start_ = start;
    end_ = now();
    peaks_ = peaks;
  }

  void free_staging() {
    if (staging_user_ != nullptr && staging_user_->is_staging_read()) {
      backend().retire(std::move(staging_user_), std::move(staging_));
    }
    staging_user_ = nullptr;
    staging_ = Buffer();
  }

  // Called by destructors: executions do not outlive what they use.
  void end() {
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

 private:
  enum class PartState { waiting, under_way, done };

  bool is_done() const override { return next_ == parts_.size() && (queued_ == nullptr || queued_->is_done()); }

  bool advance() override {
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

  bool advance_part(RunPart& part, const TilePointers& tiles) {
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

  // False while other processes read what is staged.
  bool begin(RunPart& part, const TilePointers& tiles) {
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

  // No longer among those that go on beside others.
  void leave() {
    if (is_begun_) backend().end(*this);
    is_begun_ = false;
  }

  bool are_shared(const TilePointers& tiles) const {
    return std::all_of(tiles.sources.begin(), tiles.sources.end(),
                       [&](const std::byte* tile) { return tile == nullptr || backend().is_shared(tile); });
  }

  std::string place_of(const std::string& step) const {
    const std::string place = backend().where();
    if (place.empty()) return "";
    return step.empty() ? place + ": " : fmt::format("{}, {}: ", place, step);
  }

  static std::int64_t most_of(const std::vector<std::int64_t>& bytes) {
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  }

  const std::shared_ptr<Backend> backend_;
  const std::vector<Device> devices_;
  const std::string out_of_memory_;
  std::vector<RunPart> parts_;
  Buffer staging_;
  std::shared_ptr<PreparedStreams> staging_user_;  // of whom somebody may still read
  // The execution.
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  RoundDone done_;
  std::size_t next_ = 0;  // part
  PartState state_ = PartState::waiting;
  TilePointers tiles_;
  std::unique_ptr<Work> queued_;  // what a device's queue holds when all parts are through
  bool is_begun_ = false;         // and goes on when it is advanced
  std::future<void> thread_;      // or in a thread
  std::int64_t start_ = 0;
  std::int64_t end_ = 0;
  Peaks peaks_;
};

// --- Movements of one array.

class MovementRun final : public StagedRun {
 public:
  MovementRun(std::shared_ptr<Backend> backend, const Movement& movement, std::int64_t element_size,
              const BufferStrides& own_strides)
      : StagedRun(std::move(backend), movement.mesh.device_count()),
        source_(movement.source),
        target_(movement.target()),
        element_size_(element_size),
        strides_(this->backend().require_same(movement, element_size, own_strides)),
        sizes_(stage_sizes(movement)),
        places_(kept_places(sizes_, kept_use(), this->backend().memory().between)),
        kept_peak_(predict(movement, kept_use())),
        donated_peak_(predict(movement, TileUse::donated)),
        room_(this->backend().listed_bytes()) {
    std::size_t stop = 0;
    for (Stage& stage : make_schedule(movement, element_size, strides_)) {
      add_stage(std::move(stage), stop++, movement.steps);
    }
    if (stop > 0) return;
    whole_tiles_ = true;
    add({prepare(Stage(source_, strides_, element_size)), {}, 0, 1, {}});
  }
  MovementRun(const MovementRun&) = delete;
  MovementRun& operator=(const MovementRun&) = delete;
  ~MovementRun() override { end(); }

  using StagedRun::execute;
  RunStatistics execute(Tiles& tiles) override {
    set_out();
    guarded([&] {
      require_tiles(tiles, source_, devices(), element_size_, strides_);
      const std::unique_lock turn = backend().take_turn();
      move_donated(tiles);
    });
    return statistics();
  }

  void free_scratch() override {
    StagedRun::free_scratch();
    kept_.reset();
  }

 protected:
  void require_ready(Sources sources, Targets targets) override {
    require_buffers(sources, targets, devices());
    if (kept_ == nullptr) kept_ = make_kept_memory();
  }

  TilePointers tiles_of(const RunPart& part) override {
    return {part.from == 0 ? sources() : as_sources(tiles_at(part.from)), tiles_at(part.to)};
  }

  Peaks peaks() const override { return {kept_peak_, kept_->memory.peak()}; }

  void combine(const RunPart& part, const TilePointers& tiles) override {
    std::vector<PartsToCombine> parts;
    for (std::size_t i = 0; i < devices().size(); ++i) {
      const std::int64_t elements = sizes_.of(part.to, devices()[i]);
      if (elements == 0) continue;
      parts.push_back({tiles.sources[i], tiles.targets[i], sizes_.of(part.from, devices()[i]) / elements, elements});
    }
    backend().combine(*part.reduction, parts);
  }

 private:
  TileUse kept_use() const { return strides_.targets.empty() ? TileUse::kept : TileUse::kept_strided; }

  std::int64_t predict(const Movement& movement, TileUse use) const {
    return predict_peak_bytes(movement, element_size_, use, {backend().memory().between, 0});
  }

  // From one stop to the next. Between hosts, in two parts: an element crosses into a host once, and is passed on
  // there.
  void add_stage(Stage stage, std::size_t stop, const std::vector<Step>& steps) {
    const std::string step = fmt::format("step {}, {}", stage.step(), to_string(steps[stage.step()]));
    if (stage.reduction()) return add({nullptr, stage.reduction(), stop, stop + 1, step});
    const std::vector<std::int64_t> hosts = backend().hosts(stage.after().device_count());
    const bool is_between_hosts = std::any_of(hosts.begin(), hosts.end(), [&](auto host) { return host != hosts[0]; });
    if (!is_between_hosts || !backend().passes_on_in_hosts() || stage.after().device_count() > most_devices_by_hosts) {
      return add({prepare(std::move(stage)), {}, stop, stop + 1, step});
    }
    const StreamPlan plan({{stage.before(), stage.after(), element_size_, {0}}}, stage.after().device_count(),
                          no_memory_limit, hosts, TileUse::kept);
    const auto add_phase = [&](StreamPhase phase, std::size_t from) {
      Streams streams = make_streams(plan, devices(), {{&stage.strides(), 1}, true}, phase);
      streams.rounds = Streams::any_rounds;
      add({backend().prepare(std::move(streams)), {}, from, stop + 1, step});
    };
    add_phase(StreamPhase::from_sources, stop);
    if (plan.has_relays()) add_phase(StreamPhase::passed_on, stop + 1);
  }

  std::shared_ptr<PreparedStreams> prepare(Stage stage) {
    Streams streams = make_streams(std::make_shared<const Stage>(std::move(stage)), devices(), room_);
    room_ -= static_cast<std::int64_t>(streams.pieces.size() * sizeof(StreamPiece));
    return backend().prepare(std::move(streams));
  }

  std::int64_t bytes_at(std::size_t stop, std::size_t slot) const {
    return checked_bytes(sizes_.of(stop, devices()[slot]), element_size_);
  }

  CountedBuffer allocate(TileMemory& memory, std::size_t slot, std::int64_t bytes) const {
    return memory.allocate(slot, bytes, [&](std::size_t size) { return backend().allocate(size); });
  }

  std::unique_ptr<KeptMemory> make_kept_memory() const {
    const std::size_t count = devices().size();
    auto kept = std::make_unique<KeptMemory>(KeptMemory{TileMemory(count, backend().memory_limit())});
    for (std::size_t i = 0; i < count; ++i) {
      kept->memory.add(i, bytes_at(0, i) + bytes_at(sizes_.stops() - 1, i));
      const auto add_scratch = [&](KeptMemory::Scratch& scratch, Place kind) {
        const std::int64_t elements = places_.scratch(kind, sizes_, devices()[i]);
        scratch.tiles.push_back(allocate(kept->memory, i, checked_bytes(elements, element_size_)));
        scratch.pointers.push_back(scratch.tiles.back().data());
      };
      add_scratch(kept->even, Place::even_scratch);
      add_scratch(kept->odd, Place::odd_scratch);
    }
    return kept;
  }

  Targets tiles_at(std::size_t stop) const {
    const Place place = whole_tiles_ ? Place::target : places_.places[stop];
    if (place == Place::target) return targets();
    return place == Place::even_scratch ? kept_->even.pointers : kept_->odd.pointers;
  }

  void move_donated(Tiles& tiles) {
    const std::int64_t start = now();
    TileMemory alive(tiles.size(), backend().memory_limit());
    std::vector<CountedBuffer> current;
    for (std::size_t i = 0; i < tiles.size(); ++i) current.push_back(alive.adopt(i, std::move(tiles[i].bytes)));
    std::vector<CountedBuffer> spare(tiles.size());  // what the stage before read
    for (std::size_t i = 0; i < parts().size() && !whole_tiles_; ++i) {
      const RunPart& part = parts()[i];
      const std::vector<const std::byte*> from = pointers_to<const std::byte*>(current);
      if (part.from != part.to) spare = std::exchange(current, donated_tiles(alive, part.to, spare));
      const std::vector<std::byte*> to = pointers_to<std::byte*>(current);
      finish_part(i, {from, to});
    }
    finish_queued();
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      tiles[i] = {box_of_tile(target_, devices()[i]), current[i].release()};
    }
    record(start, {donated_peak_, alive.peak()});
  }

  // Memory that is no longer read serves again if it is just as large: a larger one could lift the peak.
  std::vector<CountedBuffer> donated_tiles(TileMemory& memory, std::size_t stop,
                                           std::vector<CountedBuffer>& spare) const {
    std::vector<CountedBuffer> tiles;
    for (std::size_t i = 0; i < spare.size(); ++i) {
      const std::int64_t bytes = bytes_at(stop, i);
      CountedBuffer old = std::move(spare[i]);
      const bool serves = !old.empty() && old.size() == bytes;
      if (!serves) old = CountedBuffer();
      tiles.push_back(serves ? std::move(old) : allocate(memory, i, bytes));
    }
    return tiles;
  }

  const Placement source_;
  const Placement target_;
  const std::int64_t element_size_;
  const BufferStrides strides_;  // of all devices' kept tiles
  const StageSizes sizes_;
  const KeptPlaces places_;
  const std::int64_t kept_peak_;  // predicted bytes of tiles
  const std::int64_t donated_peak_;
  std::int64_t room_;         // left for lists of pieces
  bool whole_tiles_ = false;  // there are no steps: kept tiles are copied as they are
  std::unique_ptr<KeptMemory> kept_;
};

// --- Transfers of many arrays.

class TransferRun final : public StagedRun {
 public:
  TransferRun(std::shared_ptr<Backend> backend, std::vector<Streams> phases)
      : StagedRun(std::move(backend), phases.front().device_count),
        tile_count_(phases.front().array_count * devices().size()) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      add({this->backend().prepare(std::move(phases[i])), {}, std::min<std::size_t>(i, 1), 1, {}});
    }
  }
  TransferRun(const TransferRun&) = delete;
  TransferRun& operator=(const TransferRun&) = delete;
  ~TransferRun() override { end(); }

  using StagedRun::execute;
  RunStatistics execute(Tiles&) override { throw RuntimeError("a transfer moves many arrays, not donated tiles"); }

  void start_in_place(Sources sources, Targets targets, const RoundDone& done) override {
    set_out(sources, targets, done);
    launch();
  }

 protected:
  void require_ready(Sources sources, Targets targets) override {
    if (sources.size() == tile_count_ && targets.size() == tile_count_) return;
    throw RuntimeError(fmt::format("the run is given {} source and {} target buffers for {} tiles", sources.size(),
                                   targets.size(), tile_count_));
  }

  TilePointers tiles_of(const RunPart& part) override {
    return {part.from == 0 ? sources() : as_sources(targets()), targets()};
  }

  void combine(const RunPart&, const TilePointers&) override { throw InternalError("transfers add nothing up"); }
  Peaks peaks() const override { return {}; }

 private:
  const std::size_t tile_count_;
};

class StagedEngine final : public Engine {
 public:
  explicit StagedEngine(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  const char* name() const override { return backend_->name(); }
  std::vector<Device> devices(std::int64_t device_count) const override { return backend_->devices(device_count); }
  std::vector<std::int64_t> hosts(std::int64_t device_count) const override { return backend_->hosts(device_count); }
  std::int64_t devices_on_machine(std::int64_t device_count) const override {
    return backend_->devices_on_machine(device_count);
  }
  Buffer allocate(std::size_t bytes) override { return backend_->allocate(bytes); }
  bool has_host_memory() const override { return backend_->device_memory() == nullptr; }
  void load(const std::byte* tile, std::span<std::byte> to) const override {
    has_host_memory() ? Engine::load(tile, to) : backend_->device_memory()->load(tile, to);
  }
  void store(std::span<const std::byte> from, std::byte* tile) const override {
    has_host_memory() ? Engine::store(from, tile) : backend_->device_memory()->store(from, tile);
  }
  void clear(std::span<std::byte> tile) const override {
    has_host_memory() ? Engine::clear(tile) : backend_->device_memory()->clear(tile);
  }
  std::optional<std::int64_t> available_memory() const override {
    return has_host_memory() ? Engine::available_memory() : backend_->device_memory()->available();
  }
  Buffer allocate_pages(std::size_t bytes, Pages pages) override {
    return has_host_memory() ? Engine::allocate_pages(bytes, pages)
                             : backend_->device_memory()->allocate_pages(bytes, pages);
  }
  std::int64_t page_bytes() const override {
    return has_host_memory() ? Engine::page_bytes() : backend_->device_memory()->page_bytes();
  }
  std::int64_t resident_bytes(const Buffer& pages) const override {
    return has_host_memory() ? Engine::resident_bytes(pages) : backend_->device_memory()->resident_bytes(pages);
  }
  EngineMemory memory() const override { return backend_->memory(); }
  Executor executor(TileOwner owner) const override { return backend_->executor(owner); }
  const Processes& processes() const override { return backend_->processes(); }
  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    const std::unique_lock turn = backend_->take_turn();
    backend_->for_each(count, task);
  }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    return std::make_unique<MovementRun>(backend_, with_short_lists(movement), element_size, strides);
  }
  std::unique_ptr<PreparedRun> prepare_transfer(std::vector<Streams> phases) override {
    return std::make_unique<TransferRun>(backend_, std::move(phases));
  }
  std::vector<bool> find_staged(const Streams& streams) const override { return backend_->find_staged(streams); }

 private:
  const std::shared_ptr<Backend> backend_;
};

}  // namespace

std::unique_ptr<Engine> make_staged_engine(std::shared_ptr<Backend> backend) {
  return std::make_unique<StagedEngine>(std::move(backend));
}

BufferStrides Backend::require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) {
  require_element_size(movement, element_size);
  return require_strides(own, movement.source, movement.target(), devices(movement.mesh.device_count()), element_size);
}

void Backend::combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) {
  struct Task {
    const PartsToCombine* parts;
    std::int64_t first;
    std::int64_t count;
  };
  const std::int64_t length = std::max<std::int64_t>(1, combined_bytes / bytes_of(reduce.element));
  std::vector<Task> tasks;
  for (const PartsToCombine& parts : tiles) {
    for (std::int64_t first = 0; first < parts.row_elements; first += length) {
      tasks.push_back({&parts, first, std::min(length, parts.row_elements - first)});
    }
  }
  for_each(tasks.size(), [&](std::size_t task) {
    const auto& [parts, first, count] = tasks[task];
    combine_rows(reduce.reduction, reduce.element, parts->rows, parts->row_elements, first, count, parts->in,
                 parts->out);
  });
}

void give_back_private(const std::byte* pages, std::size_t bytes) {
  void* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
  if (madvise(memory, bytes, MADV_DONTNEED) != 0) throw RuntimeError("the system does not take pages back");
}

}  // namespace retile
