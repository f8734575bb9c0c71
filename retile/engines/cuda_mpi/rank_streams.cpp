#include "retile/engines/cuda_mpi/rank_streams.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/cuda/chunk_launch.h"
#include "retile/engines/cuda_mpi/shown_tiles.h"

namespace retile::cuda {
namespace {

// An execution has three kinds of steps, and no rank waits for another but for these:
// 1. a rank shows its tiles to those that copy from them or to them, when what it put on its stream before is done;
// 2. a rank that copies launches when all have shown it theirs;
// 3. it tells all of them when it has copied: then their targets are complete, and nobody reads their sources.
class RankStreams final : public PreparedStreams {
 public:
  RankStreams(mpi::Job& job, const GpuRanks& gpus, std::shared_ptr<const Gpu> gpu, Streams streams,
              const mpi::DeviceRanks& ranks)
      : job_(job),
        gpu_(std::move(gpu)),
        rank_(job.world.rank()),
        shown_tag_(job.new_tag()),
        copied_tag_(job.new_tag()),
        received_(ranks.devices_per_rank()),
        staging_(ranks.devices_per_rank()),
        before_(gpu_->number()),
        copied_(gpu_->number()) {
    count_bytes(streams, ranks);
    find_tiles(streams, ranks);
    find_partners(streams, gpus, ranks);
    ChunkTable table;
    job_.world.do_together([&] {
      if (!streams.are_shapes_common) throw RuntimeError("a transfer between processes on GPUs is of packed tiles");
      std::erase_if(streams.streams, [&](const Stream& stream) { return ranks.rank_of(stream.to) != rank_; });
      table = make_chunks(streams);
    });
    table = gpus.gather(table);
    job_.world.do_together([&] {
      if (showing_.empty()) return;
      const std::size_t tiles = streams.array_count * static_cast<std::size_t>(streams.device_count);
      sources_.resize(tiles);
      targets_.resize(tiles);
      launch_.emplace(gpu_, table, tiles);
      for (const int rank : showing_) {
        if (rank != rank_) seen_.try_emplace(rank, gpu_->number());
      }
    });
  }
  ~RankStreams() override { free_requests(); }
  RankStreams(const RankStreams&) = delete;
  RankStreams& operator=(const RankStreams&) = delete;

  const std::vector<std::int64_t>& received() const override { return received_; }
  const std::vector<std::int64_t>& staging(SourceMemory) override { return staging_; }

  void start(const TilePointers& tiles, SourceMemory, std::span<std::byte>) override {
    tiles_ = tiles;
    step_ = Step::before;
    waiting_for_ = showing_;
    is_launched_ = false;
    is_copied_ = false;
    untold_ = copiers_;
    before_.record(gpu_->stream());
  }
  void start_rounds(const TilePointers&, std::span<std::byte>, const RoundDone&) override {
    throw RuntimeError("the cuda engine does not move in place");
  }

  bool advance() override {
    if (is_done()) return false;
    bool has_worked = before_.advance();
    if (!before_.is_done()) return has_worked;
    if (step_ == Step::before) has_worked = show();
    has_worked = look() || has_worked;
    has_worked = copy() || has_worked;
    has_worked = listen() || has_worked;
    if (step_ == Step::shown && untold_.empty() && (showing_.empty() || is_copied_) && are_sent()) {
      step_ = Step::done;
      has_worked = true;
    }
    return has_worked;
  }
  bool is_done() const override { return step_ == Step::done; }

 private:
  enum class Step { before, shown, done };

  // --- Preparation.

  void count_bytes(const Streams& streams, const mpi::DeviceRanks& ranks) {
    for (const Stream& stream : streams.streams) {
      if (ranks.rank_of(stream.to) == rank_ && stream.from != stream.to) {
        received_[ranks.slot_of(stream.to)] += stream.bytes;
      }
    }
  }

  // The tiles of this rank that pieces begin or end in.
  void find_tiles(const Streams& streams, const mpi::DeviceRanks& ranks) {
    std::map<std::uint32_t, std::size_t> sources;  // places by number
    std::map<std::uint32_t, std::size_t> targets;
    const auto add = [&](std::map<std::uint32_t, std::size_t>& tiles, std::uint32_t array, Device device) {
      if (ranks.rank_of(device) != rank_) return;
      const auto number = static_cast<std::uint32_t>(std::int64_t{array} * streams.device_count + device);
      tiles.emplace(number, array * ranks.devices_per_rank() + ranks.slot_of(device));
    };
    for (const Stream& stream : streams.streams) {
      for (const StreamPiece& piece : streams.pieces_of(stream)) {
        add(sources, piece.array, stream.from);
        add(targets, piece.array, stream.to);
      }
    }
    const auto listed = [](const std::map<std::uint32_t, std::size_t>& tiles) {
      std::vector<OwnTile> list;
      for (const auto& [number, place] : tiles) list.push_back({number, place});
      return list;
    };
    shown_.emplace(*gpu_, listed(sources), listed(targets));
  }

  // Each rank says who copies from its tiles or to them: the others find out whom to wait for.
  void find_partners(const Streams& streams, const GpuRanks& gpus, const mpi::DeviceRanks& ranks) {
    const auto size = static_cast<std::size_t>(job_.world.size());
    std::vector<std::uint64_t> shows(size * size);  // by rank that shows and rank that copies
    for (const Stream& stream : streams.streams) {
      if (stream.count == 0) continue;
      const int copier = gpus.copier_of(ranks.rank_of(stream.to));
      shows[static_cast<std::size_t>(rank_) * size + static_cast<std::size_t>(copier)] = 1;
    }
    job_.world.add_up(shows);
    for (int rank = 0; rank < job_.world.size(); ++rank) {
      const auto other = static_cast<std::size_t>(rank);
      const auto mine = static_cast<std::size_t>(rank_);
      if (shows[other * size + mine] != 0) showing_.insert(rank);
      if (shows[mine * size + other] != 0 && rank != rank_) copiers_.insert(rank);
    }
  }

  // --- Executions.

  bool show() {
    step_ = Step::shown;
    if (!copiers_.empty()) {
      const std::vector<std::byte>& message = shown_->show(tiles_);
      for (const int copier : copiers_) send(message, copier, shown_tag_);
    }
    if (waiting_for_.erase(rank_) == 0) return true;
    // Its own it need not map.
    for (const OwnTile& tile : shown_->sources()) {
      gpu_->require_here(tiles_.sources[tile.place]);
      sources_[tile.number] = tiles_.sources[tile.place];
    }
    for (const OwnTile& tile : shown_->targets()) {
      gpu_->require_here(tiles_.targets[tile.place]);
      targets_[tile.number] = tiles_.targets[tile.place];
    }
    return true;
  }

  bool look() {
    return std::erase_if(waiting_for_, [&](int rank) {
             if (rank == rank_) return false;
             const auto message = receive(rank, shown_tag_);
             if (message) look_at(rank, *message);
             return message.has_value();
           }) > 0;
  }

  // A rank that has heard of a failure may have freed what it showed.
  void look_at(int rank, const std::vector<std::byte>& message) {
    try {
      seen_.at(rank).look(message, sources_, targets_);
    } catch (const RuntimeError&) {
      job_.look_for_failure();
      throw;
    }
  }

  bool copy() {
    if (showing_.empty() || !waiting_for_.empty() || is_copied_) return false;
    if (!is_launched_) {
      const CurrentGpu current(gpu_->number());
      copied_.record(launch_->start(sources_, targets_));
      is_launched_ = true;
      return true;
    }
    copied_.advance();
    if (!copied_.is_done()) return false;
    is_copied_ = true;
    for (const int rank : showing_) {
      if (rank != rank_) send({}, rank, copied_tag_);
    }
    return true;
  }

  bool listen() {
    return std::erase_if(untold_, [&](int copier) { return receive(copier, copied_tag_).has_value(); }) > 0;
  }

  // --- Messages.

  // The bytes live until are_sent().
  void send(std::span<const std::byte> bytes, int rank, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag, job_.world.get(), &request),
               "MPI_Isend");
    requests_.push_back(request);
  }

  bool are_sent() {
    int are_done = 0;
    mpi::check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &are_done, MPI_STATUSES_IGNORE),
               "MPI_Testall");
    if (are_done != 0) requests_.clear();
    return are_done != 0;
  }

  // Nothing where none has come.
  std::optional<std::vector<std::byte>> receive(int rank, int tag) {
    int is_there = 0;
    int bytes = 0;
    MPI_Status status;
    mpi::check(MPI_Iprobe(rank, tag, job_.world.get(), &is_there, &status), "MPI_Iprobe");
    if (is_there == 0) return std::nullopt;
    mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    std::vector<std::byte> message(static_cast<std::size_t>(bytes));
    mpi::check(MPI_Recv(message.data(), bytes, MPI_BYTE, rank, tag, job_.world.get(), MPI_STATUS_IGNORE), "MPI_Recv");
    return message;
  }

  // After a failure.
  void free_requests() {
    int is_finalized = 0;
    if (requests_.empty() || MPI_Finalized(&is_finalized) != MPI_SUCCESS || is_finalized != 0) return;
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
  }

  mpi::Job& job_;
  const std::shared_ptr<const Gpu> gpu_;
  const int rank_;
  const int shown_tag_;
  const int copied_tag_;
  std::vector<std::int64_t> received_;       // bytes by slot
  const std::vector<std::int64_t> staging_;  // nothing
  std::optional<ShownTiles> shown_;
  std::set<int> copiers_;  // other ranks that this one shows its tiles to
  // On a rank that copies.
  std::set<int> showing_;  // ranks that show their tiles to it, perhaps itself
  std::map<int, SeenTiles> seen_;
  std::vector<const std::byte*> sources_;  // by number of tile
  std::vector<std::byte*> targets_;
  std::optional<ChunkLaunch> launch_;
  // The execution.
  TilePointers tiles_;
  Step step_ = Step::done;
  StreamEvent before_;
  StreamEvent copied_;
  std::set<int> waiting_for_;  // that have yet to show their tiles
  std::set<int> untold_;       // that have yet to say that they have copied
  bool is_launched_ = false;
  bool is_copied_ = false;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::shared_ptr<PreparedStreams> make_rank_streams(mpi::Job& job, const GpuRanks& gpus, std::shared_ptr<const Gpu> gpu,
                                                   Streams streams, const mpi::DeviceRanks& ranks) {
  return std::make_shared<RankStreams>(job, gpus, std::move(gpu), std::move(streams), ranks);
}

}  // namespace retile::cuda
