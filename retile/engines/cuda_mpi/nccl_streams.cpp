#include "retile/engines/cuda_mpi/nccl_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/cuda/chunk_launch.h"
#include "retile/engines/mpi/lanes.h"

namespace retile::cuda {
namespace {

using mpi::Direction;
using mpi::Lane;

constexpr std::int64_t vector_bytes = 16;
constexpr std::int64_t cut_bytes = 64;  // parts of streams are cut between so many where there is room
constexpr std::int64_t most_ahead = 8;  // rounds that stand on streams at once: calls that put more there may wait

// A box of a tile as messages have it: row-major.
PieceShape packed(const PieceShape& shape, const DimensionOrder& order, Direction direction) {
  PieceShape result;
  result.element_size = shape.element_size;
  const Strides& in_tile = direction == Direction::sent ? shape.from : shape.to;
  Strides strides;
  for (const std::size_t dimension : order) {
    result.extent.push_back(shape.extent[dimension]);
    strides.push_back(in_tile[dimension]);
  }
  Strides row_major = strides_of(box_at(Shape(order.size()), result.extent), shape.element_size);
  result.from = direction == Direction::sent ? strides : row_major;
  result.to = direction == Direction::sent ? std::move(row_major) : std::move(strides);
  return result;
}

std::vector<PieceShape> packed_shapes(const Streams& streams, Direction direction) {
  std::vector<PieceShape> shapes;
  for (const PieceShape& shape : streams.shapes) {
    shapes.push_back(packed(shape, mpi::packed_order(streams, shape), direction));
  }
  return shapes;
}

// A lane of messages, and the room of each in the staging of a round.
struct StagedLane {
  Lane lane;
  std::int64_t place = 0;  // bytes from where the round's begins
};

// Round by round, with two of them in flight:
//   the kernel unpacks round k - 2 and packs round k, when the messages of round k - 2 are through;
//   the messages of round k go, when that is done.
// So messages of one round are on their way while the kernel works on those before and after it.
class NcclStreams final : public PreparedStreams {
 public:
  NcclStreams(mpi::Job& job, NcclRanks& nccl, std::shared_ptr<const Gpu> gpu, const Streams& streams,
              const mpi::DeviceRanks& ranks)
      : nccl_(nccl),
        gpu_(std::move(gpu)),
        received_(ranks.devices_per_rank()),
        staging_(ranks.devices_per_rank()),
        tile_count_(streams.array_count * ranks.devices_per_rank()),
        exchanged_{StreamEvent(gpu_->number()), StreamEvent(gpu_->number())} {
    for (std::int64_t i = 0; i < most_ahead; ++i) copied_.emplace_back(gpu_->number());
    const int rank = job.world.rank();
    for (const Stream& stream : streams.streams) {
      if (ranks.rank_of(stream.to) == rank && stream.from != stream.to) {
        received_[ranks.slot_of(stream.to)] += stream.bytes;
      }
    }
    sent_ = make_staged_lanes(streams, ranks, rank, Direction::sent);
    receiving_ = make_staged_lanes(streams, ranks, rank, Direction::received);
    choose_rounds(job, streams);
    place_lanes(streams, ranks);
    job.world.do_together([&] { list(streams, ranks, rank); });
  }

  const std::vector<std::int64_t>& received() const override { return received_; }
  const std::vector<std::int64_t>& staging(SourceMemory) override { return staging_; }

  void start(const TilePointers& tiles, SourceMemory, std::span<std::byte> staging) override {
    staged_ = staging.data();
    std::vector<const std::byte*> sources(tiles.sources.begin(), tiles.sources.end());
    std::vector<std::byte*> targets(tiles.targets.begin(), tiles.targets.end());
    sources.push_back(staged_);
    targets.push_back(staged_);
    if (!launch_->has_tiles(sources, targets)) {
      for (const std::size_t tile : used_sources_) gpu_->require_here(sources[tile]);
      for (const std::size_t tile : used_targets_) gpu_->require_here(targets[tile]);
    }
    launch_->send(sources, targets, gpu_->stream());
    step_ = 0;
    is_exchanging_ = false;
    is_done_ = false;
  }
  void start_rounds(const TilePointers&, std::span<std::byte>, const RoundDone&) override {
    throw RuntimeError("the cuda engine does not move in place between processes");
  }

  bool advance() override {
    if (is_done_) return false;
    const CurrentGpu current(gpu_->number());
    if (!nccl_.is_queued()) return false;
    if (is_exchanging_) {
      end_exchange();
      return true;
    }
    StreamEvent& copied = copied_[static_cast<std::size_t>(step_ % most_ahead)];  // of the last round that had it
    if (step_ < steps()) {
      copied.advance();
      if (!copied.is_done()) return false;
      begin_step(copied);
      return true;
    }
    StreamEvent& last = copied_[static_cast<std::size_t>((step_ - 1) % most_ahead)];
    last.advance();
    is_done_ = last.is_done();
    return is_done_;
  }
  bool is_done() const override { return is_done_; }

 private:
  // Rounds, and two steps that only unpack.
  std::int64_t steps() const { return static_cast<std::int64_t>(copies_.size()); }

  // --- Preparation.

  static std::vector<StagedLane> make_staged_lanes(const Streams& streams, const mpi::DeviceRanks& ranks, int rank,
                                                   Direction direction) {
    std::vector<StagedLane> lanes;
    for (auto& [peer, lane] : mpi::make_lanes(streams, ranks, rank, direction, [](int) { return true; })) {
      lanes.push_back({std::move(lane)});
    }
    return lanes;
  }

  template <typename Visit>
  void visit_lanes(Visit visit) {
    for (StagedLane& lane : sent_) visit(lane);
    for (StagedLane& lane : receiving_) visit(lane);
  }

  // The same on all ranks: a round has a part of every stream.
  void choose_rounds(mpi::Job& job, const Streams& streams) {
    std::int64_t bytes = 0;
    std::int64_t count = 0;
    visit_lanes([&](const StagedLane& lane) {
      bytes += lane.lane.bytes;
      count += static_cast<std::int64_t>(lane.lane.streams.size());
    });
    is_planned_ = streams.rounds != Streams::any_rounds;
    rounds_ = streams.rounds;
    std::int64_t unit = 1;
    if (!is_planned_) {
      const std::int64_t room = job.options.staging_bytes / in_flight;
      // Parts and places are rounded up.
      const auto free_of = [&](std::int64_t cut) { return room - count * (cut + vector_bytes); };
      unit = job.world.least(2 * free_of(cut_bytes) > room ? cut_bytes : 1);
      job.world.do_together([&] {
        if (free_of(unit) > 0) return;
        throw RuntimeError(fmt::format("staging of {} bytes is too little for {} streams of a rank",
                                       job.options.staging_bytes, count));
      });
      rounds_ = job.world.most(std::max<std::int64_t>(bytes > 0 ? 1 : 0, divide_up(bytes, free_of(unit))));
    }
    visit_lanes([&](StagedLane& lane) {
      lane.lane.unit = unit;
      lane.lane.set_rounds(streams, rounds_);
    });
  }

  void place_lanes(const Streams& streams, const mpi::DeviceRanks& ranks) {
    for (std::vector<StagedLane>* lanes : {&sent_, &receiving_}) {
      for (StagedLane& lane : *lanes) {
        lane.place = round_bytes_;
        round_bytes_ += lane.lane.part_bytes;
        const std::int64_t padding =
            is_planned_ ? 0 : divide_up(round_bytes_, vector_bytes) * vector_bytes - round_bytes_;
        round_bytes_ += padding;
        const auto slot = [&](std::size_t stream) {
          const Stream& ends = streams.streams[stream];
          return ranks.slot_of(lanes == &sent_ ? ends.from : ends.to);
        };
        staging_[slot(lane.lane.streams.front())] += in_flight * padding;
        for (const std::size_t i : lane.lane.streams) {
          staging_[slot(i)] += in_flight * lane.lane.part_of(streams.streams[i].bytes, 0).size();
        }
      }
    }
  }

  // Chunks of tiles of this rank; the staging is one more.
  void list(const Streams& streams, const mpi::DeviceRanks& ranks, int rank) {
    ChunkLister lister;
    const auto place_in = [&](Device device, const StreamPiece& piece, std::int64_t offset,
                              std::vector<std::size_t>& used) -> TilePlace {
      const std::size_t tile = piece.array * ranks.devices_per_rank() + ranks.slot_of(device);
      used.push_back(tile);
      return {static_cast<std::uint32_t>(tile), offset};
    };
    for (const Stream& stream : streams.streams) {
      if (ranks.rank_of(stream.from) != rank || ranks.rank_of(stream.to) != rank) continue;
      for (const StreamPiece& piece : streams.pieces_of(stream)) {
        lister.add(streams.shapes[piece.shape], place_in(stream.from, piece, piece.from_offset, used_sources_),
                   place_in(stream.to, piece, piece.to_offset, used_targets_));
      }
    }
    own_ = lister.end_launch();
    const std::vector<PieceShape> to_messages = packed_shapes(streams, Direction::sent);
    const std::vector<PieceShape> from_messages = packed_shapes(streams, Direction::received);
    const auto staging = static_cast<std::uint32_t>(tile_count_);
    std::vector<std::vector<StreamCursor>> packing = cursors_of(sent_);
    std::vector<std::vector<StreamCursor>> unpacking = cursors_of(receiving_);
    for (std::int64_t step = 0; step < (rounds_ == 0 ? 1 : rounds_ + in_flight); ++step) {
      walk(streams, receiving_, unpacking, step - in_flight,
           [&](const Stream& stream, const StreamPiece& piece, ByteRange range, std::int64_t place) {
             lister.add(from_messages[piece.shape], range, {staging, place - range.begin},
                        place_in(stream.to, piece, piece.to_offset, used_targets_));
           });
      walk(streams, sent_, packing, step,
           [&](const Stream& stream, const StreamPiece& piece, ByteRange range, std::int64_t place) {
             lister.add(to_messages[piece.shape], range, place_in(stream.from, piece, piece.from_offset, used_sources_),
                        {staging, place - range.begin});
           });
      copies_.push_back(lister.end_launch());
    }
    for (std::vector<std::size_t>* used : {&used_sources_, &used_targets_}) {
      std::sort(used->begin(), used->end());
      used->erase(std::unique(used->begin(), used->end()), used->end());
    }
    for (const std::vector<StagedLane>* lanes : {&sent_, &receiving_}) {
      for (const StagedLane& lane : *lanes) {
        std::vector<std::int64_t> bytes;
        for (std::int64_t round = 0; round < rounds_; ++round) bytes.push_back(bytes_of(streams, lane.lane, round));
        messages_.push_back(std::move(bytes));
      }
    }
    launch_.emplace(gpu_, lister.take(), tile_count_ + 1);
  }

  static std::vector<std::vector<StreamCursor>> cursors_of(const std::vector<StagedLane>& lanes) {
    std::vector<std::vector<StreamCursor>> cursors;
    for (const StagedLane& lane : lanes) cursors.emplace_back(lane.lane.streams.size());
    return cursors;
  }

  static std::int64_t bytes_of(const Streams& streams, const Lane& lane, std::int64_t round) {
    std::int64_t bytes = 0;
    for (const std::size_t i : lane.streams) bytes += lane.part_of(streams.streams[i].bytes, round).size();
    return bytes;
  }

  // visit(stream, piece, range, place in the staging) for all that a round has of the lanes.
  template <typename Visit>
  void walk(const Streams& streams, const std::vector<StagedLane>& lanes,
            std::vector<std::vector<StreamCursor>>& cursors, std::int64_t round, Visit visit) const {
    if (round < 0 || round >= rounds_) return;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Lane& lane = lanes[i].lane;
      std::int64_t place = place_of(lanes[i], round);
      for (std::size_t j = 0; j < lane.streams.size(); ++j) {
        const Stream& stream = streams.streams[lane.streams[j]];
        cursors[i][j].advance(streams, stream, lane.part_of(stream.bytes, round).size(),
                              [&](const StreamPiece& piece, ByteRange range) {
                                visit(stream, piece, range, place);
                                place += range.size();
                              });
      }
    }
  }

  std::int64_t place_of(const StagedLane& lane, std::int64_t round) const {
    return round % in_flight * round_bytes_ + lane.place;
  }

  // --- Executions.

  void begin_step(StreamEvent& copied) {
    cudaStream_t copying = gpu_->stream();
    if (step_ >= in_flight) exchanged_[step_ % in_flight].hold(copying);
    launch_->launch(copies_[static_cast<std::size_t>(step_)], copying);
    copied.record(copying);
    if (step_ < rounds_) {
      copied.hold(nccl_.stream());
      nccl_.exchange(messages_in(sent_, 0), messages_in(receiving_, sent_.size()));
      is_exchanging_ = true;
    }
    // Beside the first messages.
    if (step_ == 0) {
      launch_->launch(own_, copying);
      if (rounds_ == 0) copied.record(copying);
    }
    ++step_;
  }

  void end_exchange() {
    exchanged_[(step_ - 1) % in_flight].record(nccl_.stream());
    is_exchanging_ = false;
  }

  // The messages of the round that the step begins.
  std::vector<NcclMessage> messages_in(const std::vector<StagedLane>& lanes, std::size_t first) const {
    std::vector<NcclMessage> messages;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const std::int64_t bytes = messages_[first + i][static_cast<std::size_t>(step_)];
      if (bytes == 0) continue;
      messages.push_back({lanes[i].lane.peer, staged_ + place_of(lanes[i], step_), static_cast<std::size_t>(bytes)});
    }
    return messages;
  }

  static constexpr std::int64_t in_flight = 2;  // rounds

  NcclRanks& nccl_;
  const std::shared_ptr<const Gpu> gpu_;
  std::vector<std::int64_t> received_;  // bytes by slot
  std::vector<std::int64_t> staging_;
  const std::size_t tile_count_;
  std::vector<StagedLane> sent_;
  std::vector<StagedLane> receiving_;
  bool is_planned_ = false;
  std::int64_t rounds_ = 0;
  std::int64_t round_bytes_ = 0;           // of the staging
  std::vector<std::size_t> used_sources_;  // places of tiles that chunks name
  std::vector<std::size_t> used_targets_;
  ChunkRange own_;                                   // from tiles of this rank to its tiles
  std::vector<ChunkRange> copies_;                   // by step
  std::vector<std::vector<std::int64_t>> messages_;  // bytes by lane, first those sent, and round
  std::optional<ChunkLaunch> launch_;
  // The execution.
  std::byte* staged_ = nullptr;
  std::int64_t step_ = 0;
  bool is_exchanging_ = false;
  bool is_done_ = true;
  StreamEvent exchanged_[in_flight];  // by round
  std::deque<StreamEvent> copied_;    // by step
};

}  // namespace

std::shared_ptr<PreparedStreams> make_nccl_streams(mpi::Job& job, NcclRanks& nccl, std::shared_ptr<const Gpu> gpu,
                                                   const Streams& streams, const mpi::DeviceRanks& ranks) {
  return std::make_shared<NcclStreams>(job, nccl, std::move(gpu), streams, ranks);
}

}  // namespace retile::cuda
