// The backend of MPI ranks for the frame of runs: which devices they have, how they go on and fail together, and the
// memory of their host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/job.h"

namespace retile::mpi {

class MpiBackend : public Backend {
 public:
  explicit MpiBackend(std::shared_ptr<Job> job) : job_(std::move(job)) {}

  const char* name() const override { return "mpi"; }

  std::vector<Device> devices(std::int64_t device_count) const override;
  std::int64_t devices_on_machine(std::int64_t device_count) const override;
  std::vector<std::int64_t> hosts(std::int64_t device_count) const override;
  bool passes_on_in_hosts() const override { return job_->options.transport != Transport::collectives; }
  std::vector<double> link_rates(std::int64_t device_count) const override;
  const Processes& processes() const override { return job_->world; }
  std::string where() const override;
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
  BufferStrides require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) override;

  // Tiles between source and target are in memory that the ranks of a host share, which the target's may not be.
  EngineMemory memory() const override { return {EngineMemory::Between::in_scratch, job_->options.staging_bytes}; }
  std::int64_t listed_bytes() const override { return job_->options.listed_bytes; }
  Buffer allocate(std::size_t bytes) override { return job_->host.allocate(bytes); }
  bool is_shared(const std::byte* address) const override { return job_->host.sees(address); }
  void give_back(const std::byte* pages, std::size_t bytes) override;

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    for (std::size_t i = 0; i < count; ++i) task(i);
  }
  // Between ranks of one host, the receiver unpacks from the sender's staging.
  std::vector<bool> find_staged(const Streams& streams) const override;
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override;

  // Ranks of a host read each other's tiles if these lie in shared memory. The caller's own go through staging: two
  // copies in place of one, for as long as the source is read. Between hosts, an exchange crosses once, and collectives
  // one after the other cross more often.
  Executor executor(TileOwner owner) const override;

 protected:
  Job& job() const { return *job_; }
  DeviceRanks ranks_of(std::int64_t device_count) const {
    return {device_count, job_->world.size(), job_->options.device_map};
  }

 private:
  const std::shared_ptr<Job> job_;
};

}  // namespace retile::mpi
