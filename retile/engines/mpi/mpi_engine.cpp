#include "retile/engines/mpi/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/fingerprint.h"
#include "retile/engines/mpi/gather_strides.h"
#include "retile/engines/mpi/job.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/engines/mpi/stream_run.h"
#include "retile/engines/staged_run.h"

namespace retile::mpi {
namespace {

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(std::shared_ptr<Job> job) : job_(std::move(job)) {}

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

  bool passes_on_in_hosts() const override { return job_->options.transport != Transport::collectives; }
  const Processes& processes() const override { return job_->world; }
  std::string where() const override { return fmt::format("rank {}", job_->world.rank()); }
  double seconds_between(std::int64_t start, std::int64_t end) const override {
    return job_->seconds_between(start, end);
  }

  // MPI's collectives have an order that all ranks keep to: that in which runs are started.
  Progress progress() const override {
    return job_->options.transport == Transport::collectives ? Progress::at_start : Progress::when_advanced;
  }
  void finish(Work& work) override { job_->finish(work); }
  void begin(Work& work) override { job_->begin(work); }
  void end(Work& work) override { job_->end(work); }
  bool advance_begun() override { return job_->advance_begun(); }
  void retire(std::shared_ptr<PreparedStreams> streams, Buffer staging) override {
    job_->retire(std::move(streams), std::move(staging));
  }
  void tell_failure(std::string_view text) noexcept override { job_->tell_failure(text); }
  const char* failure() const override { return job_->failure(); }
  void look_for_failure() override { job_->look_for_failure(); }

  // Ranks with different ideas of the run would wait for each other forever, or write where they must not.
  BufferStrides require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) override {
    const DeviceRanks ranks = ranks_of(movement.mesh.device_count());
    const std::int64_t number = fingerprint(movement, element_size);
    BufferStrides checked;
    std::optional<std::string> fault;
    if (job_->failure() != nullptr) fault = std::string("an earlier run failed: ") + job_->failure();
    try {
      require_element_size(movement, element_size);
      checked =
          require_strides(own, movement.source, movement.target(), ranks.devices_of(job_->world.rank()), element_size);
    } catch (const RuntimeError& error) {
      if (!fault) fault = error.what();
    }
    std::int64_t numbers[] = {number, -number, fault ? 1 : 0, checked.sources.empty() ? 0 : 1,
                              checked.targets.empty() ? 0 : 1};
    job_->world.most(numbers);
    if (numbers[2] != 0) throw RuntimeError(job_->world.first_text(fault).value());
    if (numbers[0] != -numbers[1]) job_->world.require_same("movements", describe(movement, element_size));
    const auto gather = [&](bool is_strided, const std::vector<Strides>& mine, const Placement& placement) {
      return is_strided ? gather_strides(mine, placement, element_size, job_->world, ranks) : std::vector<Strides>();
    };
    return {gather(numbers[3] != 0, checked.sources, movement.source),
            gather(numbers[4] != 0, checked.targets, movement.target())};
  }

  // Tiles between source and target are in memory that the ranks of a host share, which the target's may not be.
  EngineMemory memory() const override { return {EngineMemory::Between::in_scratch, job_->options.staging_bytes}; }
  std::int64_t listed_bytes() const override { return job_->options.listed_bytes; }
  Buffer allocate(std::size_t bytes) override { return job_->host.allocate(bytes); }
  bool is_shared(const std::byte* address) const override { return job_->host.sees(address); }

  void give_back(const std::byte* pages, std::size_t bytes) override {
    if (!job_->host.is_shared() || !job_->host.sees(pages)) return give_back_private(pages, bytes);
    auto* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
    if (!Host::give_back(memory, bytes)) throw RuntimeError("the system does not take shared pages back");
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    for (std::size_t i = 0; i < count; ++i) task(i);
  }
  // Between ranks of one host, the receiver unpacks from the sender's staging.
  std::vector<bool> find_staged(const Streams& streams) const override {
    const DeviceRanks ranks = ranks_of(streams.device_count);
    std::vector<bool> staged(streams.streams.size());
    for (const Direction direction : {Direction::sent, Direction::received}) {
      for (const auto& [peer, lane] :
           make_lanes(streams, ranks, job_->world.rank(), direction, [](int) { return true; })) {
        const bool is_staged =
            job_->is_near(peer) ? direction == Direction::sent : !is_contiguous(streams, lane, direction);
        for (const std::size_t i : lane.streams) staged[i] = is_staged;
      }
    }
    return staged;
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    job_->free_retired();
    DeviceRanks ranks = ranks_of(streams.device_count);
    return make_stream_run(*job_, std::move(streams), std::move(ranks));
  }

  // Ranks of a host read each other's tiles if these lie in shared memory. The caller's own go through staging: two
  // copies in place of one, for as long as the source is read. Between hosts, an exchange crosses once, and collectives
  // one after the other cross more often.
  Executor executor(TileOwner owner) const override {
    Executor executor = Backend::executor(owner);
    if (owner == TileOwner::caller) executor.first_weight = 2;
    const std::vector<std::int64_t>& hosts = job_->host.numbers();
    const bool has_hosts = std::any_of(hosts.begin(), hosts.end(), [&](auto host) { return host != hosts[0]; });
    if (has_hosts) executor.exchange_weight = 0.5;
    return executor;
  }

 private:
  DeviceRanks ranks_of(std::int64_t device_count) const {
    return {device_count, job_->world.size(), job_->options.device_map};
  }

  const std::shared_ptr<Job> job_;
};

// --- Engines that communicators keep.

using KeptEngines = std::vector<std::pair<MpiOptions, std::shared_ptr<Engine>>>;

// Of all communicators.
std::vector<KeptEngines*>& all_kept_engines() {
  static std::vector<KeptEngines*> all;
  return all;
}

extern "C" int retile_free_engines(MPI_Comm, int, void* value, void*) {
  auto* engines = static_cast<KeptEngines*>(value);
  std::erase(all_kept_engines(), engines);
  delete engines;
  return MPI_SUCCESS;
}

// MPI_Finalize frees what MPI_COMM_SELF keeps before anything else, while communicators can still be freed.
extern "C" int retile_free_all_engines(MPI_Comm, int, void*, void*) {
  for (KeptEngines* engines : all_kept_engines()) engines->clear();
  return MPI_SUCCESS;
}

int make_key(MPI_Comm_delete_attr_function* free) {
  int key = MPI_KEYVAL_INVALID;
  check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free, &key, nullptr), "MPI_Comm_create_keyval");
  return key;
}

// Made once. Copies of a communicator have engines of their own.
int engines_key() {
  static const int key = [] {
    check(MPI_Comm_set_attr(MPI_COMM_SELF, make_key(retile_free_all_engines), nullptr), "MPI_Comm_set_attr");
    return make_key(retile_free_engines);
  }();
  return key;
}

// Null where the communicator keeps none.
KeptEngines* find_engines(MPI_Comm comm) {
  void* engines = nullptr;
  int is_there = 0;
  check(MPI_Comm_get_attr(comm, engines_key(), &engines, &is_there), "MPI_Comm_get_attr");
  return is_there == 0 ? nullptr : static_cast<KeptEngines*>(engines);
}

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(MPI_Comm comm, const MpiOptions& options) {
  return make_staged_engine(std::make_shared<MpiBackend>(std::make_shared<Job>(comm, options)));
}

std::shared_ptr<Engine> engine_of(MPI_Comm comm, const MpiOptions& options) {
  require_communicator(comm);
  KeptEngines* engines = find_engines(comm);
  if (engines == nullptr) {
    auto made = std::make_unique<KeptEngines>();
    made->emplace_back(options, make_mpi_engine(comm, options));
    check(MPI_Comm_set_attr(comm, engines_key(), made.get()), "MPI_Comm_set_attr");
    all_kept_engines().push_back(made.get());
    return made.release()->front().second;
  }
  // All ranks find one, or all make one.
  require_same_options(engines->front().second->processes(), options);
  const auto found =
      std::find_if(engines->begin(), engines->end(), [&](const auto& kept) { return kept.first == options; });
  if (found != engines->end()) return found->second;
  engines->emplace_back(options, make_mpi_engine(comm, options));
  return engines->back().second;
}

}  // namespace retile::mpi
