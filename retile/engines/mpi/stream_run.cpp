#include "retile/engines/mpi/stream_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/mpi/host_read.h"
#include "retile/engines/mpi/stream_messages.h"

namespace retile::mpi {
namespace {

// Copies between two looks at messages.
constexpr std::int64_t most_pulled_bytes = 1 << 20;

// Less is left in the caches, where somebody may read it soon.
constexpr std::int64_t least_streamed_bytes = 4 << 20;

// MPI counts with 32 bits.
constexpr std::int64_t most_part_bytes = 1 << 30;

// How a stream comes to this rank.
enum class Way { copied, read, sent };

// Where sources are: in memory that the ranks of their host see, in that of their ranks alone, or in memory that goes
// as it is read.
enum class Sources { mapped, own, donated };

class StreamRun final : public PreparedStreams {
 public:
  StreamRun(std::shared_ptr<Job> job, Streams streams, DeviceRanks ranks)
      : job_(std::move(job)), ranks_(std::move(ranks)), rank_(job_->world.rank()), streams_(std::move(streams)) {
    streams_.are_shapes_common = job_->world.least(streams_.are_shapes_common ? 1 : 0) == 1;
    for (const PieceShape& shape : streams_.shapes) {
      copies_.push_back(shape.copy());
      packings_.push_back(shape.packing());
      unpackings_.push_back(shape.unpacking());
      suits_reading_.push_back(HostRead(copies_.back()).suits());
    }
    received_.resize(ranks_.devices_per_rank());
    for (const Stream& stream : streams_.streams) {
      if (is_ours(stream.to) && stream.from != stream.to) received_[ranks_.slot_of(stream.to)] += stream.bytes;
    }
    if (*std::max_element(received_.begin(), received_.end()) >= least_streamed_bytes) stores_ = Stores::streaming;
  }

  StreamStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    const Sources where = agree_to_start(sources, targets);
    std::unique_ptr<Work>& work = where == Sources::mapped ? mapped_ : own_;
    if (work == nullptr) {
      work = make_work(where);
      limit_messages(work->lanes);
    }
    return timed(*work, [&] { run(*work, sources, targets); });
  }

  StreamStatistics execute_rounds(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                                  const RoundDone& done) override {
    agree_to_start(sources, targets);
    if (donated_ == nullptr) {
      donated_ = make_work(Sources::donated);
      if (measure_messages(donated_->lanes) > most_part_bytes) {
        throw RuntimeError(fmt::format("a message of more than {} bytes: the cap is too large", most_part_bytes));
      }
    }
    return timed(*donated_, [&] { run_rounds(*donated_, sources, targets, done); });
  }

  void give_back(const std::byte* pages, std::size_t bytes) override {
    if (!job_->host.is_shared() || !job_->host.sees(pages)) return PreparedStreams::give_back(pages, bytes);
    auto* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
    if (!Host::give_back(memory, bytes)) throw RuntimeError("the system does not take shared pages back");
  }

  void free_staging() override { staging_ = Buffer(); }

 private:
  // What comes to this rank otherwise than by messages, and who takes from it.
  struct Work {
    struct Pull {
      std::uint32_t stream;
      std::uint32_t piece;
      int distance;               // of the rank that it comes from
      std::optional<int> member;  // nothing: from this rank's own tiles
      Way way;
    };
    std::vector<Pull> pulls;  // array by array: neighbours in memory share caches and pages
    std::vector<int> readers;
    Lanes lanes;
  };

  template <typename Action>
  StreamStatistics timed(const Work& work, Action action) {
    allocate_staging(work);
    job_->world.barrier();
    const std::int64_t start = now();
    try {
      action();
    } catch (const RuntimeError& error) {
      throw RuntimeError(fmt::format("rank {}: {}", rank_, error.what()));
    }
    const double seconds = job_->seconds_since(start);
    return {received_, staging_by_slot(work), seconds};
  }

  bool is_ours(Device device) const { return ranks_.rank_of(device) == rank_; }

  // Found alike by both ranks of a stream.
  Way way_of(const Stream& stream, int peer, Sources where) const {
    if (peer == rank_) return Way::copied;
    const bool is_near = job_->options.transport == Transport::automatic && job_->host.member(peer).has_value();
    if (!is_near || !streams_.are_shapes_common || where == Sources::donated) return Way::sent;
    if (where == Sources::mapped) return Way::copied;
    const bool suits =
        job_->host.reads() && std::all_of(stream.pieces.begin(), stream.pieces.end(),
                                          [&](const StreamPiece& piece) { return suits_reading_[piece.shape]; });
    return suits ? Way::read : Way::sent;
  }

  std::unique_ptr<Work> make_work(Sources where) const {
    auto work = std::make_unique<Work>();
    std::map<int, Lane> sent;
    std::map<int, Lane> received;
    for (std::size_t i = 0; i < streams_.streams.size(); ++i) {
      const Stream& stream = streams_.streams[i];
      const bool is_received = is_ours(stream.to);
      const int peer = ranks_.rank_of(is_received ? stream.from : stream.to);
      const Way way = way_of(stream, peer, where);
      if (way == Way::sent) {
        Lane& lane = (is_received ? received : sent)[peer];
        lane.peer = peer;
        lane.streams.push_back(i);
      } else if (is_received) {
        const std::optional<int> member = peer == rank_ ? std::nullopt : job_->host.member(peer);
        for (std::size_t j = 0; j < stream.pieces.size(); ++j) {
          work->pulls.push_back(
              {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j), distance(peer, rank_), member, way});
        }
      } else {
        work->readers.push_back(*job_->host.member(peer));
      }
    }
    for (auto& [peer, lane] : sent) work->lanes.sent.push_back(std::move(lane));
    for (auto& [peer, lane] : received) work->lanes.received.push_back(std::move(lane));
    order_by_distance(*work);
    return work;
  }

  int distance(int from, int to) const { return (to - from + job_->world.size()) % job_->world.size(); }

  // At any time, ranks work with different partners.
  void order_by_distance(Work& work) const {
    const auto place = [&](const Work::Pull& pull) {
      const StreamPiece& piece = streams_.streams[pull.stream].pieces[pull.piece];
      return std::tuple(piece.array, pull.distance, piece.to_offset);
    };
    std::sort(work.pulls.begin(), work.pulls.end(),
              [&](const Work::Pull& a, const Work::Pull& b) { return place(a) < place(b); });
    std::sort(work.lanes.sent.begin(), work.lanes.sent.end(),
              [&](const Lane& a, const Lane& b) { return distance(rank_, a.peer) < distance(rank_, b.peer); });
    std::sort(work.lanes.received.begin(), work.lanes.received.end(),
              [&](const Lane& a, const Lane& b) { return distance(a.peer, rank_) < distance(b.peer, rank_); });
    std::sort(work.readers.begin(), work.readers.end());
    work.readers.erase(std::unique(work.readers.begin(), work.readers.end()), work.readers.end());
  }

  // Collective. More rounds where a rank has so many devices that a message would be too long.
  void limit_messages(Lanes& lanes) {
    while (measure_messages(lanes) > most_part_bytes) streams_.rounds *= 2;
  }

  // Collective: the longest of all ranks.
  std::int64_t measure_messages(Lanes& lanes) const {
    std::int64_t longest[] = {0};
    for (std::vector<Lane>* list : {&lanes.sent, &lanes.received}) {
      for (Lane& lane : *list) {
        lane.part_bytes = 0;
        for (const std::size_t i : lane.streams) {
          lane.part_bytes += streams_.part_of(streams_.streams[i].bytes, 0).size();
        }
        longest[0] = std::max(longest[0], lane.part_bytes);
      }
    }
    job_->world.most(longest);
    return longest[0];
  }

  // All ranks start together, or none does where one was given other than a buffer for each tile.
  Sources agree_to_start(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const {
    enum Start : std::int64_t { refused, with_own_tiles, with_mapped_tiles };
    const std::size_t count = streams_.array_count * ranks_.devices_per_rank();
    const bool fits = sources.size() == count && targets.size() == count;
    const bool is_mapped = std::all_of(sources.begin(), sources.end(), [&](const std::byte* source) {
      return source == nullptr || job_->host.sees(source);
    });
    const std::int64_t start = job_->world.least(!fits ? refused : is_mapped ? with_mapped_tiles : with_own_tiles);
    if (!fits) {
      throw RuntimeError(fmt::format("the run is given {} source and {} target buffers for {} tiles", sources.size(),
                                     targets.size(), count));
    }
    if (start == refused) throw RuntimeError("another rank was given other than a buffer for each tile");
    return start == with_mapped_tiles ? Sources::mapped : Sources::own;
  }

  void allocate_staging(const Work& work) {
    const auto needed = static_cast<std::size_t>(work.lanes.staging(streams_));
    job_->world.do_together([&] {
      if (staging_.size() != needed) staging_ = needed > 0 ? Buffer(needed) : Buffer();
    });
  }

  std::vector<std::int64_t> staging_by_slot(const Work& work) const {
    std::vector<std::int64_t> staging(ranks_.devices_per_rank());
    std::int64_t sum = 0;
    for (const std::vector<Lane>* lanes : {&work.lanes.sent, &work.lanes.received}) {
      for (const Lane& lane : *lanes) {
        for (const std::size_t i : lane.streams) {
          const Stream& stream = streams_.streams[i];
          const std::int64_t bytes = streams_.part_of(stream.bytes, 0).size() * streams_.rounds_in_flight;
          staging[ranks_.slot_of(lanes == &work.lanes.sent ? stream.from : stream.to)] += bytes;
          sum += bytes;
        }
      }
    }
    ensure(sum == static_cast<std::int64_t>(staging_.size()), "staging is that of the streams' parts");
    return staging;
  }

  template <typename Pointer>
  Pointer tile(std::span<Pointer const> tiles, std::uint32_t array, Device device) const {
    return tiles[array * ranks_.devices_per_rank() + ranks_.slot_of(device)];
  }

  StreamMessages messages_of(const Work& work, std::span<const std::byte* const> sources,
                             std::span<std::byte* const> targets) {
    return {job_->world,
            streams_,
            work.lanes,
            packings_,
            unpackings_,
            {staging_.begin(), staging_.end()},
            [=, this](const Stream& stream, const StreamPiece& piece) {
              return tile(sources, piece.array, stream.from) + piece.from_offset;
            },
            [=, this](const Stream& stream, const StreamPiece& piece) {
              return tile(targets, piece.array, stream.to) + piece.to_offset;
            }};
  }

  // What goes to other ranks is packed ahead, what comes waits for its round.
  void run_rounds(const Work& work, std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                  const RoundDone& done) {
    StreamMessages messages = messages_of(work, sources, targets);
    std::vector<StreamCursor> cursors(streams_.streams.size());
    Idle idle(job_->world);
    const auto advance = [&](std::int64_t end) { messages.advance(end) ? idle.reset() : idle.pause(); };
    for (std::int64_t round = 0; round < streams_.rounds; ++round) {
      messages.advance(round);
      for (std::size_t i = 0; i < cursors.size(); ++i) {
        const Stream& stream = streams_.streams[i];
        if (!is_ours(stream.from) || !is_ours(stream.to)) continue;
        cursors[i].advance(streams_, stream, streams_.part_of(stream.bytes, round).size(),
                           [&](std::size_t index, ByteRange range) {
                             const StreamPiece& piece = stream.pieces[index];
                             copies_[piece.shape].run(tile(sources, piece.array, stream.from) + piece.from_offset,
                                                      tile(targets, piece.array, stream.to) + piece.to_offset, range);
                           });
      }
      while (!messages.is_through(round)) advance(round + 1);
      done(round);
    }
    while (!messages.is_done()) advance(streams_.rounds);
  }

  void run(const Work& work, std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
    job_->host.publish(sources);
    StreamMessages messages = messages_of(work, sources, targets);
    PullProgress progress;
    Idle idle(job_->world);
    while (progress.pull < work.pulls.size() || !messages.is_done()) {
      const bool has_moved = messages.advance(streams_.rounds);
      if (advance_pulls(work, progress, sources, targets) || has_moved) {
        idle.reset();
      } else {
        idle.pause();
      }
    }
    finish_stores(stores_);
    job_->host.finish();
    for (const int reader : work.readers) {
      while (!job_->host.is_finished(reader)) idle.pause();
    }
  }

  struct PullProgress {
    std::size_t pull = 0;
    std::int64_t done = 0;  // bytes of it
  };

  // Some pieces. False where the next one's tile is not there yet, or none is left.
  bool advance_pulls(const Work& work, PullProgress& progress, std::span<const std::byte* const> sources,
                     std::span<std::byte* const> targets) const {
    std::int64_t pulled = 0;
    while (pulled < most_pulled_bytes && progress.pull < work.pulls.size()) {
      const Work::Pull& pull = work.pulls[progress.pull];
      if (pull.member && !job_->host.is_ready(*pull.member)) break;
      const Stream& stream = streams_.streams[pull.stream];
      const StreamPiece& piece = stream.pieces[pull.piece];
      const BoxCopy& copy = copies_[piece.shape];
      std::byte* to = tile(targets, piece.array, stream.to) + piece.to_offset;
      ByteRange range{progress.done, copy.bytes()};
      if (pull.way == Way::read) {
        HostRead(copy).run(job_->host.process(*pull.member),
                           remote_tile(*pull.member, piece.array, stream.from) + piece.from_offset, to);
      } else {
        range.end = std::min(range.end, range.begin + copy.range_length(most_pulled_bytes));
        const std::byte* from =
            pull.member ? mapped_tile(*pull.member, piece.array, stream.from) : tile(sources, piece.array, stream.from);
        copy.run(from + piece.from_offset, to, range, stores_);
      }
      pulled += range.size();
      progress.done = range.end;
      if (progress.done == copy.bytes()) progress = {progress.pull + 1, 0};
    }
    return pulled > 0;
  }

  const std::byte* mapped_tile(int member, std::uint32_t array, Device device) const {
    return job_->host.mapped_tile(member, array * ranks_.devices_per_rank() + ranks_.slot_of(device));
  }
  const std::byte* remote_tile(int member, std::uint32_t array, Device device) const {
    return job_->host.remote_tile(member, array * ranks_.devices_per_rank() + ranks_.slot_of(device));
  }

  const std::shared_ptr<Job> job_;
  const DeviceRanks ranks_;
  const int rank_;
  Streams streams_;
  std::vector<BoxCopy> copies_;  // by shape, as what follows
  std::vector<BoxPacking> packings_;
  std::vector<BoxPacking> unpackings_;
  std::vector<bool> suits_reading_;
  Stores stores_ = Stores::cached;
  std::vector<std::int64_t> received_;  // bytes by slot
  std::unique_ptr<Work> mapped_;        // where the ranks of a host see each other's sources
  std::unique_ptr<Work> own_;           // and where they do not
  std::unique_ptr<Work> donated_;       // and where these go as they are read
  Buffer staging_;
};

}  // namespace

std::unique_ptr<PreparedStreams> make_stream_run(std::shared_ptr<Job> job, Streams streams, DeviceRanks ranks) {
  return std::make_unique<StreamRun>(std::move(job), std::move(streams), std::move(ranks));
}

}  // namespace retile::mpi
