#include "bench/mpi/transfer_contenders.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/planner/planner.h"
#include "retile/schedule/planned_streams.h"
#include "retile/transfer/run.h"

namespace retile::bench {
namespace {

using mpi::check;
using transfer::Manifest;
using transfer::TransferPlan;

std::int64_t element_size(const Manifest& manifest, std::size_t array) {
  return bytes_of(manifest.problems[manifest.arrays[array].problem].element_type());
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

// --- Ours.

class OneTransfer final : public Contender {
 public:
  OneTransfer(const TransferPlan& plan, Engine& engine) : prepared_(plan, engine) {}

  const char* name() const override { return "transfer"; }
  void run(const TilePointers& tiles) override {
    sources_.clear();
    for (const std::byte* source : tiles.sources) sources_.emplace_back(source, 0);  // where they are: none is donated
    prepared_.run(sources_, tiles.targets);
  }
  std::int64_t received() override { return prepared_.statistics().received_max; }
  std::int64_t extra() override { return prepared_.statistics().staging_max; }

 private:
  transfer::PreparedTransfer prepared_;
  std::vector<std::span<const std::byte>> sources_;
};

class OneByOne final : public Contender {
 public:
  OneByOne(const TransferPlan& plan, Engine& engine) : manifest_(plan.manifest()) {
    devices_ = engine.devices(plan.device_count()).size();
    for (const Problem& problem : manifest_.problems) {
      const Plan steps = make_plan(in_world(problem, plan.device_count()));
      runs_.push_back(engine.prepare(steps.movement, bytes_of(problem.element_type())));
    }
  }

  const char* name() const override { return "one by one"; }
  void run(const TilePointers& tiles) override {
    for (std::size_t i = 0; i < manifest_.arrays.size(); ++i) {
      runs_[manifest_.arrays[i].problem]->run(tiles.sources.subspan(i * devices_, devices_),
                                              tiles.targets.subspan(i * devices_, devices_));
    }
  }
  std::int64_t received() override {
    std::int64_t received = 0;
    for (const transfer::NamedArray& array : manifest_.arrays)
      received += runs_[array.problem]->statistics().received_max;
    return received;
  }
  std::int64_t extra() override { return 0; }

 private:
  // Arrays on some of the devices, as listed boxes of all.
  static Problem in_world(const Problem& problem, std::int64_t world) {
    if (problem.device_count() == world) return problem;
    const auto listed = [&](const Layout& layout) {
      BoxLayout boxes{layout.global_shape(), std::vector<std::vector<Box>>(static_cast<std::size_t>(world))};
      const Placement placement = layout.placement(world);
      for (Device device = 0; device < world; ++device) {
        for (Part& part : placement.parts(device)) boxes.boxes[static_cast<std::size_t>(device)].push_back(part.box);
      }
      return Layout(std::move(boxes));
    };
    return {"", listed(problem.source()), listed(problem.target()), problem.element_type()};
  }

  const Manifest& manifest_;
  std::size_t devices_;
  std::vector<std::unique_ptr<PreparedRun>> runs_;  // by problem
};

// --- The floor.

class CopiedTiles final : public Contender {
 public:
  CopiedTiles(const TransferPlan& plan, const std::vector<Device>& devices, int threads) : pool_(threads) {
    for (const transfer::NamedArray& array : plan.manifest().arrays) {
      const std::int64_t element = bytes_of(plan.manifest().problems[array.problem].element_type());
      for (const Device device : devices) {
        const std::int64_t elements =
            std::min(plan.source(array.problem).size(device), plan.target(array.problem).size(device));
        if (task_bytes_ <= 0) task_begins_.push_back(sizes_.size());
        if (task_bytes_ <= 0) task_bytes_ = most_task_bytes;
        sizes_.push_back(static_cast<std::size_t>(elements * element));
        task_bytes_ -= elements * element;
      }
    }
    task_begins_.push_back(sizes_.size());
  }

  const char* name() const override { return "memcpy"; }
  bool is_right() const override { return false; }
  void run(const TilePointers& tiles) override {
    pool_.for_each(task_begins_.size() - 1, [&](std::size_t task) {
      for (std::size_t i = task_begins_[task]; i < task_begins_[task + 1]; ++i) {
        if (sizes_[i] > 0) std::memcpy(tiles.targets[i], tiles.sources[i], sizes_[i]);
      }
    });
  }
  std::int64_t received() override { return 0; }
  std::int64_t extra() override { return 0; }

 private:
  static constexpr std::int64_t most_task_bytes = 512 << 10;

  WorkerPool pool_;
  std::vector<std::size_t> sizes_;  // by array and device of this process
  std::vector<std::size_t> task_begins_;
  std::int64_t task_bytes_ = 0;  // room in the last task
};

// --- MPI_Alltoallw with types for all pieces.

class AlltoallwPerArray final : public Contender {
 public:
  AlltoallwPerArray(const TransferPlan& plan, MPI_Comm comm) : comm_(comm), manifest_(plan.manifest()) {
    const Device device = rank_in(comm);
    for (const Problem& problem : manifest_.problems) {
      const TransferPlan one(transfer::make_manifest({{"all", whole_world(plan)}, {"array", problem}}),
                             std::int64_t{1} << 40U);
      calls_.push_back(call_of(make_streams(one, std::span(&device, 1), {}), device));
    }
  }
  AlltoallwPerArray(const AlltoallwPerArray&) = delete;
  AlltoallwPerArray& operator=(const AlltoallwPerArray&) = delete;
  ~AlltoallwPerArray() override {
    for (Call& call : calls_) {
      for (Side* side : {&call.sent, &call.received}) {
        for (MPI_Datatype& type : side->types) {
          if (type != MPI_BYTE) MPI_Type_free(&type);
        }
      }
    }
  }

  const char* name() const override { return "alltoallw"; }
  void run(const TilePointers& tiles) override {
    received_ = 0;
    for (std::size_t i = 0; i < manifest_.arrays.size(); ++i) {
      const Call& call = calls_[manifest_.arrays[i].problem];
      check(MPI_Alltoallw(tiles.sources[i], call.sent.counts.data(), call.sent.displacements.data(),
                          call.sent.types.data(), tiles.targets[i], call.received.counts.data(),
                          call.received.displacements.data(), call.received.types.data(), comm_),
            "MPI_Alltoallw");
      received_ += call.bytes;
    }
  }
  std::int64_t received() override { return received_; }
  std::int64_t extra() override { return 0; }  // that it tells of

 private:
  struct Side {
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<MPI_Datatype> types;
  };
  struct Call {
    Side sent;
    Side received;
    std::int64_t bytes = 0;
  };

  // Something on all devices, so that the plan is of all.
  static Problem whole_world(const TransferPlan& plan) {
    const Mesh mesh({{"a", plan.device_count()}});
    const DistributedType cut = DistributedType::cut(mesh, {plan.device_count()}, {{mesh.whole(0)}});
    return {"", cut, cut};
  }

  static MPI_Datatype strided(const Shape& extent, const Strides& strides, std::int64_t element) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(static_cast<int>(element), MPI_BYTE, &type), "MPI_Type_contiguous");
    for (std::size_t i = extent.size(); i-- > 0;) {
      MPI_Datatype outer = MPI_DATATYPE_NULL;
      check(MPI_Type_create_hvector(static_cast<int>(extent[i]), 1, strides[i], type, &outer),
            "MPI_Type_create_hvector");
      MPI_Type_free(&type);
      type = outer;
    }
    return type;
  }

  static void add(Side& side, Device peer, const Stream& stream, const Streams& streams, bool is_sent) {
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Aint> places;
    for (const StreamPiece& piece : streams.pieces_of(stream)) {
      if (piece.array == 0) continue;
      const PieceShape& shape = streams.shapes[piece.shape];
      types.push_back(strided(shape.extent, is_sent ? shape.from : shape.to, shape.element_size));
      places.push_back(is_sent ? piece.from_offset : piece.to_offset);
    }
    if (types.empty()) return;
    const auto index = static_cast<std::size_t>(peer);
    const std::vector<int> ones(types.size(), 1);
    side.counts[index] = 1;
    check(MPI_Type_create_struct(static_cast<int>(types.size()), ones.data(), places.data(), types.data(),
                                 &side.types[index]),
          "MPI_Type_create_struct");
    check(MPI_Type_commit(&side.types[index]), "MPI_Type_commit");
    for (MPI_Datatype& type : types) MPI_Type_free(&type);
  }

  Call call_of(const Streams& streams, Device device) const {
    Call call;
    const auto ranks = static_cast<std::size_t>(size_of(comm_));
    for (Side* side : {&call.sent, &call.received}) {
      side->counts.assign(ranks, 0);
      side->displacements.assign(ranks, 0);
      side->types.assign(ranks, MPI_BYTE);
    }
    for (const Stream& stream : streams.streams) {
      if (stream.from == device) add(call.sent, stream.to, stream, streams, true);
      if (stream.to == device) add(call.received, stream.from, stream, streams, false);
      if (stream.to == device && stream.from != device) call.bytes += stream.bytes;
    }
    return call;
  }

  const MPI_Comm comm_;
  const Manifest& manifest_;
  std::vector<Call> calls_;  // by problem
  std::int64_t received_ = 0;
};

// --- Everybody gets everything.

// Arrays that are gathered together: boxes by owner, the first of their holders.
class GatheredArrays {
 public:
  GatheredArrays(const TransferPlan& plan, std::vector<std::size_t> arrays, MPI_Comm comm)
      : plan_(plan),
        arrays_(std::move(arrays)),
        rank_(rank_in(comm)),
        counts_(static_cast<std::size_t>(size_of(comm))) {
    for (const std::size_t array : arrays_) add_boxes(array);
    std::stable_sort(boxes_.begin(), boxes_.end(),
                     [](const OwnedBox& a, const OwnedBox& b) { return a.owner < b.owner; });
    for (OwnedBox& box : boxes_) {
      box.offset = bytes_;
      bytes_ += bytes_of_box(box);
      counts_[static_cast<std::size_t>(box.owner)] += static_cast<int>(bytes_of_box(box));
    }
    if (bytes_ > INT32_MAX) throw RuntimeError("MPI cannot gather more than 2 GiB at once");
    for (std::size_t i = 0; i < counts_.size(); ++i) starts_.push_back(i == 0 ? 0 : starts_[i - 1] + counts_[i - 1]);
  }

  std::int64_t bytes() const { return bytes_; }
  std::int64_t own_bytes() const { return counts_[static_cast<std::size_t>(rank_)]; }
  const std::vector<int>& counts() const { return counts_; }
  const std::vector<int>& starts() const { return starts_; }

  void pack(const TilePointers& tiles, std::byte* out) const {
    const std::int64_t start = starts_[static_cast<std::size_t>(rank_)];
    for (const OwnedBox& box : boxes_) {
      if (box.owner != rank_) continue;
      copy_box(tiles.sources[box.array], box.source, out + box.offset - start, TileLayout(box.source.box),
               box.source.box, element_size(plan_.manifest(), box.array));
    }
  }

  void slice(const std::byte* gathered, const TilePointers& tiles) const {
    for (const OwnedBox& box : boxes_) {
      const std::int64_t element = element_size(plan_.manifest(), box.array);
      for (const Part& part : plan_.target(plan_.manifest().arrays[box.array].problem).parts(rank_)) {
        const auto shared = intersect(part.box, box.source.box);
        if (!shared) continue;
        copy_box(gathered + box.offset, TileLayout(box.source.box), tiles.targets[box.array], layout_of(part, element),
                 *shared, element);
      }
    }
  }

 private:
  struct OwnedBox {
    Device owner;
    std::size_t array;
    TileLayout source;
    std::int64_t offset;  // in what is gathered
  };

  std::int64_t bytes_of_box(const OwnedBox& box) const {
    return volume(box.source.box) * element_size(plan_.manifest(), box.array);
  }

  void add_boxes(std::size_t array) {
    const Placement& source = plan_.source(plan_.manifest().arrays[array].problem);
    std::map<std::pair<Shape, Shape>, bool> seen;
    for (Device device = 0; device < source.device_count(); ++device) {
      for (const Part& part : source.parts(device)) {
        if (!seen.try_emplace({part.box.lo, part.box.hi}, true).second) continue;
        boxes_.push_back({device, array, layout_of(part, element_size(plan_.manifest(), array)), 0});
      }
    }
  }

  const TransferPlan& plan_;
  const std::vector<std::size_t> arrays_;
  const Device rank_;
  std::vector<int> counts_;  // bytes by rank
  std::vector<int> starts_;
  std::vector<OwnedBox> boxes_;
  std::int64_t bytes_ = 0;
};

class GatherAll final : public Contender {
 public:
  GatherAll(const TransferPlan& plan, MPI_Comm comm, std::optional<std::int64_t> bucket_bytes)
      : comm_(comm), is_broadcast_(bucket_bytes.has_value()) {
    std::vector<std::size_t> arrays;
    std::int64_t bytes = 0;
    const auto flush = [&] {
      if (!arrays.empty()) buckets_.emplace_back(plan, std::exchange(arrays, {}), comm);
      bytes = 0;
    };
    for (std::size_t i = 0; i < plan.manifest().arrays.size(); ++i) {
      const Problem& problem = plan.manifest().problems[plan.manifest().arrays[i].problem];
      std::int64_t size = bytes_of(problem.element_type());
      for (const std::int64_t extent : problem.source().global_shape()) size *= extent;
      if (bytes + size > bucket_bytes.value_or(0)) flush();
      arrays.push_back(i);
      bytes += size;
    }
    flush();
  }

  const char* name() const override { return is_broadcast_ ? "buckets" : "gather-slice"; }
  void run(const TilePointers& tiles) override {
    received_ = extra_ = 0;
    for (const GatheredArrays& bucket : buckets_) {
      own_.resize(static_cast<std::size_t>(bucket.own_bytes()));
      all_.resize(static_cast<std::size_t>(bucket.bytes()));
      bucket.pack(tiles, own_.data());
      const auto own = static_cast<int>(bucket.own_bytes());
      if (is_broadcast_) {
        check(MPI_Gatherv(own_.data(), own, MPI_BYTE, all_.data(), bucket.counts().data(), bucket.starts().data(),
                          MPI_BYTE, 0, comm_),
              "MPI_Gatherv");
        check(MPI_Bcast(all_.data(), static_cast<int>(bucket.bytes()), MPI_BYTE, 0, comm_), "MPI_Bcast");
      } else {
        check(MPI_Allgatherv(own_.data(), own, MPI_BYTE, all_.data(), bucket.counts().data(), bucket.starts().data(),
                             MPI_BYTE, comm_),
              "MPI_Allgatherv");
      }
      bucket.slice(all_.data(), tiles);
      received_ += bucket.bytes() - (is_broadcast_ ? 0 : bucket.own_bytes());
      extra_ = std::max(extra_, bucket.bytes() + bucket.own_bytes());
    }
  }
  std::int64_t received() override { return received_; }
  std::int64_t extra() override { return extra_; }

 private:
  const MPI_Comm comm_;
  const bool is_broadcast_;
  std::vector<GatheredArrays> buckets_;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
  std::int64_t received_ = 0;
  std::int64_t extra_ = 0;
};

}  // namespace

std::unique_ptr<Contender> make_transfer(const TransferPlan& plan, Engine& engine) {
  return std::make_unique<OneTransfer>(plan, engine);
}

std::unique_ptr<Contender> make_one_by_one(const TransferPlan& plan, Engine& engine) {
  return std::make_unique<OneByOne>(plan, engine);
}

std::unique_ptr<Contender> make_memcpy(const TransferPlan& plan, const std::vector<Device>& devices, int threads) {
  return std::make_unique<CopiedTiles>(plan, devices, threads);
}

std::unique_ptr<Contender> make_alltoallw(const TransferPlan& plan, MPI_Comm comm) {
  return std::make_unique<AlltoallwPerArray>(plan, comm);
}

std::unique_ptr<Contender> make_gather_slice(const TransferPlan& plan, MPI_Comm comm) {
  return std::make_unique<GatherAll>(plan, comm, std::nullopt);
}

std::unique_ptr<Contender> make_buckets(const TransferPlan& plan, MPI_Comm comm, std::int64_t bucket_bytes) {
  return std::make_unique<GatherAll>(plan, comm, bucket_bytes);
}

}  // namespace retile::bench
