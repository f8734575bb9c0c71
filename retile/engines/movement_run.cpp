#include "retile/engines/movement_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/engines/staged_run.h"
#include "retile/memory/tile_memory.h"
#include "retile/schedule/planned_streams.h"

namespace retile {
namespace {

using Place = KeptPlaces::Place;

// Senders of more devices are not chosen by their hosts: that takes a list of all pairs of tiles that meet.
constexpr std::int64_t most_devices_by_hosts = 1024;

template <typename Pointer>
std::vector<Pointer> pointers_to(std::vector<CountedBuffer>& tiles) {
  std::vector<Pointer> pointers;
  for (CountedBuffer& tile : tiles) pointers.push_back(tile.data());
  return pointers;
}

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
    MessageForm form;
    form.link_rates = backend().link_rates(stage.after().device_count());
    const StreamPlan plan({{stage.before(), stage.after(), element_size_, {0}}}, stage.after().device_count(),
                          no_memory_limit, hosts, TileUse::kept, form);
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

}  // namespace

std::unique_ptr<PreparedRun> make_movement_run(std::shared_ptr<Backend> backend, const Movement& movement,
                                               std::int64_t element_size, const BufferStrides& strides) {
  return std::make_unique<MovementRun>(std::move(backend), movement, element_size, strides);
}

}  // namespace retile
