#include "retile/engines/mpi/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/fingerprint.h"
#include "retile/engines/mpi/gather_strides.h"
#include "retile/engines/mpi/job.h"
#include "retile/engines/mpi/rank_work.h"
#include "retile/engines/mpi/stream_run.h"
#include "retile/engines/schedule.h"
#include "retile/engines/tile_memory.h"

namespace retile::mpi {
namespace {

// Tiles between source and target are in memory that the ranks of a host share, which the target's may not be.
constexpr EngineMemory::Between between = EngineMemory::Between::in_scratch;

class MpiRun final : public PreparedRun {
 public:
  // `strides` are of all devices.
  MpiRun(std::shared_ptr<Job> job, const Movement& movement, std::int64_t element_size, BufferStrides strides,
         DeviceRanks ranks)
      : job_(std::move(job)),
        ranks_(std::move(ranks)),
        mesh_(movement.mesh),
        source_(movement.source),
        target_(movement.target()),
        steps_(movement.steps),
        devices_(ranks_.devices_of(job_->world.rank())),
        element_size_(element_size),
        strides_(std::move(strides)),
        sizes_(stage_sizes(movement)),
        places_(kept_places(sizes_, TileUse::kept, between)),
        kept_peak_(predict_peak_bytes(movement, element_size, TileUse::kept, {between, 0})),
        donated_peak_(predict_peak_bytes(movement, element_size, TileUse::donated, {between, 0})),
        teams_(job_->world),
        stages_(make_schedule(movement, element_size, strides_)),
        room_(job_->options.listed_bytes) {
    for (std::size_t i = 1; i < stages_.size(); ++i) work_.push_back(make_work(i, TileSight::mapped));
  }

  EngineStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    const TileSight sight = agree_to_start(sources, [&] { require_buffers(sources, targets, devices_); });
    make_ready(sight, TileUse::kept);
    const std::int64_t start = now();
    if (stages_.empty()) copy_all(sources, targets);
    std::vector<const std::byte*> from(sources.begin(), sources.end());
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const bool is_last = i + 1 == stages_.size();
      std::vector<std::byte*> to(targets.begin(), targets.end());
      if (!is_last) to = pointers_to<std::byte*>(scratch(places_.places[i + 1]));
      run_stage(i, sight, from, to);
      from.assign(to.begin(), to.end());
    }
    return statistics(start, TileUse::kept, sight, kept_->memory.peak());
  }

  EngineStatistics execute(Tiles& tiles) override {
    std::vector<const std::byte*> sources;
    for (const Tile& tile : tiles) sources.push_back(tile.bytes.data());
    const TileSight sight =
        agree_to_start(sources, [&] { require_tiles(tiles, source_, devices_, element_size_, strides_); });
    make_ready(sight, TileUse::donated);
    const std::int64_t start = now();
    TileMemory memory(devices_.size());
    std::vector<CountedBuffer> current;
    for (std::size_t i = 0; i < tiles.size(); ++i) current.push_back(memory.adopt(i, std::move(tiles[i].bytes)));
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      std::vector<CountedBuffer> next = allocate_tiles(memory, [&](Device device) { return sizes_.of(i + 1, device); });
      run_stage(i, sight, pointers_to<const std::byte*>(current), pointers_to<std::byte*>(next));
      current = std::move(next);
    }
    for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = {box_of_tile(target_, devices_[i]), current[i].release()};
    return statistics(start, TileUse::donated, sight, memory.peak());
  }

  void free_scratch() override {
    kept_.reset();
    staging_.reset();
  }

 private:
  // The memory of runs that keep their tiles.
  struct KeptMemory {
    TileMemory memory;
    std::vector<CountedBuffer> even_scratch;  // by device
    std::vector<CountedBuffer> odd_scratch;
  };

  template <typename Pointer>
  static std::vector<Pointer> pointers_to(std::vector<CountedBuffer>& tiles) {
    std::vector<Pointer> pointers;
    for (CountedBuffer& tile : tiles) pointers.push_back(tile.data());
    return pointers;
  }

  // Adds the rank and the step to what fails.
  template <typename Action>
  void in_step(std::size_t step, Action action) const {
    try {
      action();
    } catch (const RuntimeError& error) {
      throw RuntimeError(
          fmt::format("rank {}, step {}, {}: {}", job_->world.rank(), step, to_string(steps_[step]), error.what()));
    }
  }

  std::unique_ptr<RankWork> make_work(std::size_t stage, TileSight sight) {
    if (stages_[stage].reduction()) return nullptr;  // nothing moves
    const StageContext context{job_->world, job_->host, ranks_, job_->options, teams_, mesh_, element_size_};
    const std::size_t step = stages_[stage].step();
    std::unique_ptr<RankWork> work;
    in_step(step, [&] {
      const Placement& held = step == 0 ? source_ : steps_[step - 1].after;
      work = std::make_unique<RankWork>(stages_[stage], steps_[step], held, sight, context, room_);
    });
    room_ -= work ? work->listed_bytes() : 0;
    return work;
  }

  std::unique_ptr<RankWork>& first_work(TileSight sight) {
    return sight == TileSight::own ? first_own_ : first_mapped_;
  }

  const RankWork& work(std::size_t stage, TileSight sight) const {
    if (stage > 0) return *work_[stage - 1];
    return sight == TileSight::own ? *first_own_ : *first_mapped_;
  }

  // What the first execution of its kind makes, and those after it use again. All ranks have the same already.
  void make_ready(TileSight sight, TileUse use) {
    if (!stages_.empty() && !stages_.front().reduction() && first_work(sight) == nullptr) {
      first_work(sight) = make_work(0, sight);
      staging_.reset();
    }
    const bool lacks_kept = use == TileUse::kept && kept_ == nullptr;
    if (staging_ && !lacks_kept) return;
    job_->world.do_together([&] {
      try {
        if (!staging_) staging_ = allocate_staging();
        if (lacks_kept) kept_ = std::make_unique<KeptMemory>(make_kept_memory());
      } catch (const RuntimeError& error) {
        throw RuntimeError(fmt::format("rank {}: {}", job_->world.rank(), error.what()));
      }
    });
  }

  // For every kind of execution that there was.
  Buffer allocate_staging() const {
    std::int64_t needed = 0;
    const auto note = [&](const std::unique_ptr<RankWork>& work) {
      if (work) needed = std::max(needed, work->staging_needed());
    };
    note(first_own_);
    note(first_mapped_);
    std::for_each(work_.begin(), work_.end(), note);
    return needed > 0 ? job_->host.allocate(static_cast<std::size_t>(needed)) : Buffer();
  }

  // All ranks start together, or none does where one was given what it cannot start with.
  template <typename Require>
  TileSight agree_to_start(std::span<const std::byte* const> sources, Require require) const {
    enum Start : std::int64_t { refused, with_own_tiles, with_mapped_tiles };
    std::optional<RuntimeError> fault;
    try {
      require();
    } catch (const RuntimeError& error) {
      fault = error;
    }
    const bool is_mapped =
        std::all_of(sources.begin(), sources.end(), [&](const std::byte* source) { return job_->host.sees(source); });
    const std::int64_t start = job_->world.least(fault ? refused : is_mapped ? with_mapped_tiles : with_own_tiles);
    if (fault) throw *fault;
    if (start == refused) throw RuntimeError("another rank was given tiles that the run does not start from");
    return start == with_mapped_tiles ? TileSight::mapped : TileSight::own;
  }

  // So many elements for each device of this rank.
  template <typename ElementsOf>
  std::vector<CountedBuffer> allocate_tiles(TileMemory& memory, ElementsOf elements_of) const {
    std::vector<CountedBuffer> tiles;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::int64_t bytes = checked_bytes(elements_of(devices_[i]), element_size_);
      tiles.push_back(memory.adopt(i, job_->host.allocate(static_cast<std::size_t>(bytes))));
    }
    return tiles;
  }

  KeptMemory make_kept_memory() const {
    KeptMemory kept{TileMemory(devices_.size()), {}, {}};
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::int64_t ends = sizes_.of(0, devices_[i]) + sizes_.of(sizes_.stops() - 1, devices_[i]);
      kept.memory.add(i, checked_bytes(ends, element_size_));
    }
    const auto allocate = [&](KeptPlaces::Place kind) {
      return allocate_tiles(kept.memory, [&](Device device) { return places_.scratch(kind, sizes_, device); });
    };
    kept.even_scratch = allocate(KeptPlaces::Place::even_scratch);
    kept.odd_scratch = allocate(KeptPlaces::Place::odd_scratch);
    return kept;
  }

  std::vector<CountedBuffer>& scratch(KeptPlaces::Place place) {
    return place == KeptPlaces::Place::even_scratch ? kept_->even_scratch : kept_->odd_scratch;
  }

  std::int64_t target_size(std::size_t stage, Device device) const { return sizes_.of(stage + 1, device); }

  void run_stage(std::size_t stage, TileSight sight, std::span<const std::byte* const> from,
                 std::span<std::byte* const> to) {
    if (stages_[stage].reduction()) {
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        stages_[stage].reduce(devices_[i], 0, target_size(stage, devices_[i]), from[i], to[i]);
      }
      return;
    }
    in_step(stages_[stage].step(), [&] {
      work(stage, sight).run(job_->world, job_->host, from, to, {staging_->begin(), staging_->end()});
    });
  }

  void copy_all(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const {
    const Stage whole(source_, strides_, element_size_);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Device device = devices_[i];
      for (const Part& part : source_.parts(device)) {
        BoxCopy(whole.tile_before(device, part.box), whole.tile_after(device, part.box), part.box, element_size_)
            .run(sources[i], targets[i]);
      }
    }
  }

  // A rank's staging is shared by its devices.
  std::int64_t staging_per_device() const { return share_of(static_cast<std::int64_t>(staging_->size())); }
  std::int64_t share_of(std::int64_t bytes) const {
    return divide_up(bytes, static_cast<std::int64_t>(devices_.size()));
  }

  EngineStatistics statistics(std::int64_t start, TileUse use, TileSight sight, std::int64_t tiles_measured) const {
    std::int64_t received = 0;
    for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
      std::int64_t bytes = 0;
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        if (!stages_[i].reduction()) bytes += work(i, sight).received()[slot];
      }
      received = std::max(received, bytes);
    }
    const std::int64_t predicted = use == TileUse::donated ? donated_peak_ : kept_peak_;
    const double seconds = job_->seconds_since(start);
    std::int64_t most[] = {received, predicted + staging_per_device(), tiles_measured + staging_per_device()};
    job_->world.most(most);
    return {most[0], most[1], most[2], seconds};
  }

  const std::shared_ptr<Job> job_;
  const DeviceRanks ranks_;
  const Mesh mesh_;
  const Placement source_;
  const Placement target_;
  const std::vector<Step> steps_;
  const std::vector<Device> devices_;
  const std::int64_t element_size_;
  const BufferStrides strides_;  // of all devices' kept tiles
  const StageSizes sizes_;
  const KeptPlaces places_;
  const std::int64_t kept_peak_;  // predicted bytes, staging not included
  const std::int64_t donated_peak_;
  TeamCommunicators teams_;
  const std::vector<Stage> stages_;
  std::int64_t room_;                            // left for lists of copies
  std::vector<std::unique_ptr<RankWork>> work_;  // from the second stage on: all ranks of a host see what it reads
  std::unique_ptr<RankWork> first_mapped_;       // the first stage where they see the sources too
  std::unique_ptr<RankWork> first_own_;          // and where they do not
  std::optional<Buffer> staging_;
  std::unique_ptr<KeptMemory> kept_;
};

class MpiEngine final : public Engine {
 public:
  MpiEngine(MPI_Comm comm, const MpiOptions& options) : job_(std::make_shared<Job>(comm, options)) {
    const std::int64_t least = std::max<std::int64_t>(least_staging, std::int64_t{64} * job_->world.size());
    if (options.staging_bytes < least || options.staging_bytes > most_staging) {
      throw RuntimeError(
          fmt::format("staging of {} bytes is not between {} and {}", options.staging_bytes, least, most_staging));
    }
  }

  const char* name() const override { return "mpi"; }

  std::vector<Device> devices(std::int64_t device_count) const override {
    return ranks_of(device_count).devices_of(job_->world.rank());
  }

  std::int64_t devices_on_machine(std::int64_t device_count) const override {
    return static_cast<std::int64_t>(ranks_of(device_count).devices_per_rank()) * job_->host.member_count();
  }

  std::vector<std::int64_t> hosts(std::int64_t device_count) const override {
    const DeviceRanks ranks = ranks_of(device_count);
    std::vector<std::int64_t> hosts;
    for (Device device = 0; device < device_count; ++device) {
      hosts.push_back(job_->host.numbers()[static_cast<std::size_t>(ranks.rank_of(device))]);
    }
    return hosts;
  }

  Buffer allocate(std::size_t bytes) override { return job_->host.allocate(bytes); }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    const Movement listed = with_short_lists(movement);
    require_same(listed, element_size);
    require_element_size(listed, element_size);
    DeviceRanks ranks = ranks_of(listed.mesh.device_count());
    BufferStrides all = gather_strides(strides, listed, element_size, job_->world, ranks);
    return std::make_unique<MpiRun>(job_, listed, element_size, std::move(all), std::move(ranks));
  }

  std::unique_ptr<PreparedStreams> prepare_streams(Streams streams) override {
    DeviceRanks ranks = ranks_of(streams.device_count);
    return make_stream_run(job_, std::move(streams), std::move(ranks));
  }

  EngineMemory memory() const override { return {between, job_->options.staging_bytes}; }

  // Ranks of a host read each other's tiles where these lie in shared memory. The caller's own go through staging: two
  // copies in place of one, for as long as the source is read.
  Executor executor(TileOwner owner) const override {
    Executor executor = Engine::executor(owner);
    if (owner == TileOwner::caller) executor.first_weight = 2;
    return executor;
  }

  const Processes& processes() const override { return job_->world; }

 private:
  DeviceRanks ranks_of(std::int64_t device_count) const {
    return {device_count, job_->world.size(), job_->options.device_map};
  }

  // Ranks with different ideas of the run would wait for each other forever, or write where they must not.
  void require_same(const Movement& movement, std::int64_t element_size) const {
    const MpiOptions& options = job_->options;
    std::vector<std::int64_t> more{element_size, options.staging_bytes, static_cast<std::int64_t>(options.transport),
                                   static_cast<std::int64_t>(options.hosts)};
    more.insert(more.end(), options.device_map.begin(), options.device_map.end());
    const std::int64_t mine = fingerprint(movement, more);
    std::int64_t range[] = {mine, -mine};
    job_->world.most(range);
    if (range[0] == -range[1]) return;
    throw RuntimeError("the ranks were given different movements, element sizes or options");
  }

  const std::shared_ptr<Job> job_;
};

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(MPI_Comm comm, const MpiOptions& options) {
  return std::make_unique<MpiEngine>(comm, options);
}

}  // namespace retile::mpi
