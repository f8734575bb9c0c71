#include "retile/engines/staged_run.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <functional>
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

// A part of a run: pieces that move, or a reduction. Stops are where tiles are: 0 is the sources, the last one the
// targets. Pieces that are passed on go from a stop to itself.
struct RunPart {
  std::unique_ptr<PreparedStreams> streams;  // null for a reduction
  std::optional<ReduceStep> reduction;
  std::size_t from = 0;
  std::size_t to = 0;
  std::string step;                        // for messages: "step 2, exchange"; empty if there are no steps
  std::vector<std::int64_t> staging = {};  // bytes by device of this process
};

// What executions keep from one to the next.
struct KeptMemory {
  TileMemory memory;
  std::vector<CountedBuffer> even_scratch;  // by device of this process
  std::vector<CountedBuffer> odd_scratch;
};

// What executions differ in, and all processes agree on.
struct Kind {
  SourceMemory sources = SourceMemory::own;
  SourceMemory targets = SourceMemory::shared;  // from which pieces are passed on
  TileUse use = TileUse::kept;
};
constexpr std::size_t kind_count = 12;

// Executes parts one after the other. Where their tiles come from is for those below to say.
class RunFrame {
 public:
  RunFrame(std::shared_ptr<Backend> backend, std::int64_t device_count)
      : backend_(std::move(backend)), devices_(backend_->devices(device_count)) {}

  const std::vector<Device>& devices() const { return devices_; }
  Backend& backend() const { return *backend_; }
  const std::vector<RunPart>& parts() const { return parts_; }
  void add(RunPart part) { parts_.push_back(std::move(part)); }

  // Adds the process and the step to what fails.
  template <typename Action>
  void in_step(const std::string& step, Action action) const {
    try {
      action();
    } catch (const RuntimeError& error) {
      std::string place = backend_->where();
      if (!place.empty() && !step.empty()) place += ", " + step;
      throw RuntimeError(place.empty() ? error.what() : fmt::format("{}: {}", place, error.what()));
    }
  }

  // All processes start together, or none does if one was given what it cannot start with.
  template <typename Require>
  Kind agree_to_start(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, TileUse use,
                      Require require) const {
    enum Start : std::int64_t { refused, with_own_tiles, with_shared_tiles };
    std::optional<RuntimeError> fault;
    try {
      require();
    } catch (const RuntimeError& error) {
      fault = error;
    }
    const Processes& processes = backend_->processes();
    const std::int64_t start = processes.least(fault                 ? refused
                                               : are_shared(sources) ? with_shared_tiles
                                                                     : with_own_tiles);
    if (fault) throw *fault;
    if (start == refused) throw RuntimeError("another rank was given tiles that the run does not start from");
    Kind kind{start == with_shared_tiles ? SourceMemory::shared : SourceMemory::own, SourceMemory::shared, use};
    const std::vector<const std::byte*> passed_on(targets.begin(), targets.end());
    if (passes_targets_on() && processes.least(are_shared(passed_on) ? 1 : 0) == 0) kind.targets = SourceMemory::own;
    return kind;
  }

  // Whatever lies between source and target is the run's own, which all processes of a host see.
  SourceMemory sources_of(const RunPart& part, Kind kind) const {
    if (part.from == 0) return kind.sources;
    return part.from == parts_.back().to ? kind.targets : SourceMemory::shared;
  }

  // The first execution of its kind makes what those after it use again; `more` as well. Collective.
  template <typename Action>
  void make_ready(Kind kind, Action more) {
    if (is_ready_[index(kind)]) return;
    for (RunPart& part : parts_) {
      if (part.streams == nullptr) continue;
      in_step(part.step, [&] { part.staging = part.streams->make_ready(sources_of(part, kind)); });
    }
    if (kind.sources != SourceMemory::donated) allocate_staging(parts_);
    backend_->processes().do_together([&] { in_step("", more); });
    is_ready_[index(kind)] = true;
    known_ = {};
  }

  // Room for what these parts stage, one after the other. Collective.
  void allocate_staging(std::span<const RunPart> parts) {
    std::int64_t needed = 0;
    for (const RunPart& part : parts) {
      needed = std::max(needed, std::accumulate(part.staging.begin(), part.staging.end(), std::int64_t{0}));
    }
    backend_->processes().do_together([&] {
      in_step("", [&] {
        if (needed <= static_cast<std::int64_t>(staging_.size())) return;
        staging_ = Buffer();
        staging_ = backend_->allocate(static_cast<std::size_t>(needed));
      });
    });
  }
  void free_staging() { staging_ = Buffer(); }

  void forget() {
    is_ready_ = {};
    known_ = {};
    staging_ = Buffer();
  }

  void move(const RunPart& part, const TilePointers& tiles, Kind kind) {
    in_step(part.step, [&] {
      part.streams->execute(tiles, sources_of(part, kind), {staging_.begin(), staging_.end()});
    });
  }
  void move_rounds(const RunPart& part, const TilePointers& tiles, const RoundDone& done) {
    in_step(part.step, [&] { part.streams->execute_rounds(tiles, {staging_.begin(), staging_.end()}, done); });
  }

  // Collective. Peaks are bytes of tiles. What does not change from one execution to the next is found out once.
  RunStatistics statistics(std::int64_t start, Kind kind, std::int64_t predicted, std::int64_t measured) {
    const double seconds = backend_->seconds_since(start);
    std::optional<RunStatistics>& known = known_[index(kind)];
    if (!known) known = count(predicted, measured);
    known->seconds = seconds;
    return *known;
  }

 private:
  static std::size_t index(Kind kind) {
    return static_cast<std::size_t>(kind.sources) * 4 + (kind.targets == SourceMemory::own ? 2 : 0) +
           (kind.use == TileUse::donated ? 1 : 0);
  }

  bool passes_targets_on() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const RunPart& part) { return part.from > 0 && part.from == parts_.back().to; });
  }

  bool are_shared(std::span<const std::byte* const> tiles) const {
    return std::all_of(tiles.begin(), tiles.end(),
                       [&](const std::byte* tile) { return tile == nullptr || backend_->is_shared(tile); });
  }

  RunStatistics count(std::int64_t predicted, std::int64_t measured) const {
    RunStatistics statistics;
    statistics.received.resize(devices_.size());
    for (const RunPart& part : parts_) {
      if (part.streams == nullptr) continue;
      std::transform(statistics.received.begin(), statistics.received.end(), part.streams->received().begin(),
                     statistics.received.begin(), std::plus<>());
    }
    std::int64_t staged = 0;
    for (const RunPart& part : parts_) {
      statistics.staging.push_back(part.staging);
      staged = std::max(staged, most_of(part.staging));
    }
    const Processes& processes = backend_->processes();
    statistics.received_max = processes.most(most_of(statistics.received));
    statistics.staging_max = processes.most(staged);
    statistics.peak_predicted = processes.most(predicted + staged);
    statistics.peak_measured = processes.most(measured + staged);
    return statistics;
  }

  static std::int64_t most_of(const std::vector<std::int64_t>& bytes) {
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  }

  const std::shared_ptr<Backend> backend_;
  const std::vector<Device> devices_;
  std::vector<RunPart> parts_;
  Buffer staging_;
  std::array<bool, kind_count> is_ready_{};
  std::array<std::optional<RunStatistics>, kind_count> known_;
};

// --- Movements of one array.

class MovementRun final : public PreparedRun {
 public:
  MovementRun(std::shared_ptr<Backend> backend, const Movement& movement, std::int64_t element_size,
              const BufferStrides& own_strides)
      : frame_(std::move(backend), movement.mesh.device_count()),
        source_(movement.source),
        target_(movement.target()),
        element_size_(element_size),
        strides_(frame_.backend().require_same(movement, element_size, own_strides)),
        sizes_(stage_sizes(movement)),
        places_(kept_places(sizes_, kept_use(), frame_.backend().memory().between)),
        kept_peak_(predict(movement, kept_use())),
        donated_peak_(predict(movement, TileUse::donated)),
        room_(frame_.backend().listed_bytes()) {
    std::size_t stop = 0;
    for (Stage& stage : make_schedule(movement, element_size, strides_)) {
      add_stage(std::move(stage), stop++, movement.steps);
    }
    if (stop > 0) return;
    whole_tiles_ = true;
    frame_.add({prepare(Stage(source_, strides_, element_size)), {}, 0, 1, {}});
  }

  RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    const Kind kind = frame_.agree_to_start(sources, targets, TileUse::kept,
                                            [&] { require_buffers(sources, targets, frame_.devices()); });
    const std::unique_lock turn = frame_.backend().take_turn();
    frame_.make_ready(kind, [&] {
      if (kept_ == nullptr) kept_ = make_kept_memory();
    });
    const std::int64_t start = now();
    std::vector<const std::byte*> from(sources.begin(), sources.end());
    for (const RunPart& part : frame_.parts()) {
      const std::vector<std::byte*> to = kept_tiles(part.to, targets);
      run(part, {from, to}, kind);
      from.assign(to.begin(), to.end());
    }
    return frame_.statistics(start, kind, kept_peak_, kept_->memory.peak());
  }

  RunStatistics execute(Tiles& tiles) override {
    std::vector<const std::byte*> sources;
    for (const Tile& tile : tiles) sources.push_back(tile.bytes.data());
    const auto require = [&] { require_tiles(tiles, source_, frame_.devices(), element_size_, strides_); };
    const Kind kind = frame_.agree_to_start(sources, {}, TileUse::donated, require);
    const std::unique_lock turn = frame_.backend().take_turn();
    if (!whole_tiles_) frame_.make_ready(kind, [] {});
    const std::int64_t start = now();
    TileMemory alive(tiles.size(), frame_.backend().memory_limit());
    std::vector<CountedBuffer> current;
    for (std::size_t i = 0; i < tiles.size(); ++i) current.push_back(alive.adopt(i, std::move(tiles[i].bytes)));
    std::vector<CountedBuffer> spare(tiles.size());  // what the stage before read
    for (std::size_t i = 0; i < frame_.parts().size() && !whole_tiles_; ++i) {
      const RunPart& part = frame_.parts()[i];
      const std::vector<const std::byte*> from = pointers_to<const std::byte*>(current);
      if (part.from != part.to) spare = std::exchange(current, donated_tiles(alive, part.to, spare));
      const std::vector<std::byte*> to = pointers_to<std::byte*>(current);
      run(part, {from, to}, kind);
    }
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      tiles[i] = {box_of_tile(target_, frame_.devices()[i]), current[i].release()};
    }
    return frame_.statistics(start, kind, donated_peak_, alive.peak());
  }

  void free_scratch() override {
    const std::unique_lock turn = frame_.backend().take_turn();
    kept_.reset();
    frame_.forget();
  }

 private:
  TileUse kept_use() const { return strides_.targets.empty() ? TileUse::kept : TileUse::kept_strided; }

  std::int64_t predict(const Movement& movement, TileUse use) const {
    return predict_peak_bytes(movement, element_size_, use, {frame_.backend().memory().between, 0});
  }

  // From one stop to the next. Between hosts, in two parts: an element crosses into a host once, and is passed on
  // there.
  void add_stage(Stage stage, std::size_t stop, const std::vector<Step>& steps) {
    const std::string step = fmt::format("step {}, {}", stage.step(), to_string(steps[stage.step()]));
    if (stage.reduction()) return frame_.add({nullptr, stage.reduction(), stop, stop + 1, step});
    const std::vector<std::int64_t> hosts = frame_.backend().hosts(stage.after().device_count());
    const bool is_between_hosts = std::any_of(hosts.begin(), hosts.end(), [&](auto host) { return host != hosts[0]; });
    if (!is_between_hosts || !frame_.backend().passes_on_in_hosts() ||
        stage.after().device_count() > most_devices_by_hosts) {
      return frame_.add({prepare(std::move(stage)), {}, stop, stop + 1, step});
    }
    const StreamPlan plan({{stage.before(), stage.after(), element_size_, {0}}}, stage.after().device_count(),
                          no_memory_limit, hosts, TileUse::kept);
    const auto add = [&](StreamPhase phase, std::size_t from) {
      Streams streams = make_streams(plan, frame_.devices(), {{&stage.strides(), 1}, true}, phase);
      streams.rounds = Streams::any_rounds;
      frame_.add({frame_.backend().prepare(std::move(streams)), {}, from, stop + 1, step});
    };
    add(StreamPhase::from_sources, stop);
    if (plan.has_relays()) add(StreamPhase::passed_on, stop + 1);
  }

  std::unique_ptr<PreparedStreams> prepare(Stage stage) {
    Streams streams = make_streams(std::make_shared<const Stage>(std::move(stage)), frame_.devices(), room_);
    room_ -= static_cast<std::int64_t>(streams.pieces.size() * sizeof(StreamPiece));
    return frame_.backend().prepare(std::move(streams));
  }

  std::int64_t bytes_at(std::size_t stop, std::size_t slot) const {
    return checked_bytes(sizes_.of(stop, frame_.devices()[slot]), element_size_);
  }

  CountedBuffer allocate(TileMemory& memory, std::size_t slot, std::int64_t bytes) const {
    return memory.allocate(slot, bytes, [&](std::size_t size) { return frame_.backend().allocate(size); });
  }

  std::unique_ptr<KeptMemory> make_kept_memory() const {
    const std::size_t count = frame_.devices().size();
    auto kept = std::make_unique<KeptMemory>(KeptMemory{TileMemory(count, frame_.backend().memory_limit()), {}, {}});
    for (std::size_t i = 0; i < count; ++i) {
      kept->memory.add(i, bytes_at(0, i) + bytes_at(sizes_.stops() - 1, i));
      const auto scratch = [&](Place kind) {
        const std::int64_t elements = places_.scratch(kind, sizes_, frame_.devices()[i]);
        return allocate(kept->memory, i, checked_bytes(elements, element_size_));
      };
      kept->even_scratch.push_back(scratch(Place::even_scratch));
      kept->odd_scratch.push_back(scratch(Place::odd_scratch));
    }
    return kept;
  }

  std::vector<std::byte*> kept_tiles(std::size_t stop, std::span<std::byte* const> targets) const {
    const Place place = whole_tiles_ ? Place::target : places_.places[stop];
    if (place == Place::target) return {targets.begin(), targets.end()};
    return pointers_to<std::byte*>(place == Place::even_scratch ? kept_->even_scratch : kept_->odd_scratch);
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

  void run(const RunPart& part, const TilePointers& tiles, Kind kind) {
    if (part.reduction) {
      combine(*part.reduction, part, tiles);
    } else {
      frame_.move(part, tiles, kind);
    }
  }

  void combine(const ReduceStep& reduce, const RunPart& part, const TilePointers& tiles) const {
    struct Task {
      std::size_t slot;
      std::int64_t first;
      std::int64_t count;
    };
    const std::int64_t length = std::max<std::int64_t>(1, combined_bytes / element_size_);
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < frame_.devices().size(); ++i) {
      const std::int64_t elements = sizes_.of(part.to, frame_.devices()[i]);
      for (std::int64_t first = 0; first < elements; first += length) {
        tasks.push_back({i, first, std::min(length, elements - first)});
      }
    }
    frame_.backend().for_each(tasks.size(), [&](std::size_t task) {
      const auto& [slot, first, count] = tasks[task];
      const Device device = frame_.devices()[slot];
      const std::int64_t elements = sizes_.of(part.to, device);
      combine_rows(reduce.reduction, reduce.element, sizes_.of(part.from, device) / elements, elements, first, count,
                   tiles.sources[slot], tiles.targets[slot]);
    });
  }

  RunFrame frame_;
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

class TransferRun final : public PreparedRun {
 public:
  TransferRun(std::shared_ptr<Backend> backend, std::vector<Streams> phases)
      : frame_(std::move(backend), phases.front().device_count),
        tile_count_(phases.front().array_count * frame_.devices().size()) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      frame_.add({frame_.backend().prepare(std::move(phases[i])), {}, std::min<std::size_t>(i, 1), 1, {}});
    }
  }

  RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    return run(sources, targets, TileUse::kept, {});
  }

  RunStatistics execute(Tiles&) override { throw RuntimeError("a transfer moves many arrays, not donated tiles"); }

  RunStatistics execute_in_place(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                                 const RoundDone& done) override {
    return run(sources, targets, TileUse::donated, done);
  }

  void give_back(const std::byte* pages, std::size_t bytes) override { frame_.backend().give_back(pages, bytes); }
  void free_scratch() override { frame_.forget(); }

 private:
  void require_tiles(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const {
    if (sources.size() == tile_count_ && targets.size() == tile_count_) return;
    throw RuntimeError(fmt::format("the run is given {} source and {} target buffers for {} tiles", sources.size(),
                                   targets.size(), tile_count_));
  }

  RunStatistics run(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, TileUse use,
                    const RoundDone& done) {
    Kind kind = frame_.agree_to_start(sources, targets, use, [&] { require_tiles(sources, targets); });
    if (use == TileUse::donated) kind.sources = SourceMemory::donated;
    const std::unique_lock turn = frame_.backend().take_turn();
    frame_.make_ready(kind, [] {});
    const std::int64_t start = now();
    const std::vector<const std::byte*> passed_on(targets.begin(), targets.end());
    for (const RunPart& part : frame_.parts()) {
      const TilePointers tiles{part.from == 0 ? sources : std::span<const std::byte* const>(passed_on), targets};
      if (use == TileUse::kept) {
        frame_.move(part, tiles, kind);
        continue;
      }
      // In place, what is staged goes with its phase.
      frame_.allocate_staging({&part, 1});
      part.from == 0 ? frame_.move_rounds(part, tiles, done) : frame_.move(part, tiles, kind);
      frame_.free_staging();
    }
    return frame_.statistics(start, kind, 0, 0);
  }

  RunFrame frame_;
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

 private:
  const std::shared_ptr<Backend> backend_;
};

}  // namespace

std::unique_ptr<Engine> make_staged_engine(std::shared_ptr<Backend> backend) {
  return std::make_unique<StagedEngine>(std::move(backend));
}

void give_back_private(const std::byte* pages, std::size_t bytes) {
  void* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
  if (madvise(memory, bytes, MADV_DONTNEED) != 0) throw RuntimeError("the system does not take pages back");
}

}  // namespace retile
