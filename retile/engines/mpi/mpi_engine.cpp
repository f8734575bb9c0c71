#include "retile/engines/mpi/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/fingerprint.h"
#include "retile/engines/mpi/gather_strides.h"
#include "retile/engines/mpi/job.h"
#include "retile/engines/mpi/stream_run.h"
#include "retile/engines/staged_run.h"

namespace retile::mpi {
namespace {

class MpiBackend final : public Backend {
 public:
  MpiBackend(MPI_Comm comm, const MpiOptions& options) : job_(std::make_shared<Job>(comm, options)) {
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

  bool passes_on_in_hosts() const override { return job_->options.transport != Transport::collectives; }
  const Processes& processes() const override { return job_->world; }
  std::string where() const override { return fmt::format("rank {}", job_->world.rank()); }
  double seconds_since(std::int64_t start) const override { return job_->seconds_since(start); }

  BufferStrides require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) override {
    require_same_movement(movement, element_size);
    require_element_size(movement, element_size);
    return gather_strides(own, movement, element_size, job_->world, ranks_of(movement.mesh.device_count()));
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
  std::unique_ptr<PreparedStreams> prepare(Streams streams) override {
    DeviceRanks ranks = ranks_of(streams.device_count);
    return make_stream_run(job_, std::move(streams), std::move(ranks));
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

  // Ranks with different ideas of the run would wait for each other forever, or write where they must not.
  void require_same_movement(const Movement& movement, std::int64_t element_size) const {
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
  return make_staged_engine(std::make_shared<MpiBackend>(comm, options));
}

}  // namespace retile::mpi
