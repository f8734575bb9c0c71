#include "retile/engines/mpi/mpi_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/mpi/fingerprint.h"
#include "retile/engines/mpi/gather_strides.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/engines/mpi/stream_run.h"

namespace retile::mpi {

std::string MpiBackend::where() const { return fmt::format("rank {}", job_->world.rank()); }

std::vector<Device> MpiBackend::devices(std::int64_t device_count) const {
  return ranks_of(device_count).devices_of(job_->world.rank());
}

std::int64_t MpiBackend::devices_on_machine(std::int64_t device_count) const {
  return static_cast<std::int64_t>(ranks_of(device_count).devices_per_rank()) * job_->host.member_count();
}

std::vector<std::int64_t> MpiBackend::hosts(std::int64_t device_count) const {
  const DeviceRanks ranks = ranks_of(device_count);
  std::vector<std::int64_t> hosts;
  for (Device device = 0; device < device_count; ++device) {
    hosts.push_back(job_->host.numbers()[static_cast<std::size_t>(ranks.rank_of(device))]);
  }
  return hosts;
}

BufferStrides MpiBackend::require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) {
  job_->require_no_earlier_failure();
  const DeviceRanks ranks = ranks_of(movement.mesh.device_count());
  const std::int64_t number = fingerprint(movement, element_size);
  BufferStrides checked;
  std::optional<std::string> fault;
  try {
    require_element_size(movement, element_size);
    checked =
        require_strides(own, movement.source, movement.target(), ranks.devices_of(job_->world.rank()), element_size);
  } catch (const RuntimeError& error) {
    fault = error.what();
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

void MpiBackend::give_back(const std::byte* pages, std::size_t bytes) {
  if (!job_->host.is_shared() || !job_->host.sees(pages)) return give_back_private(pages, bytes);
  auto* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
  if (!Host::give_back(memory, bytes)) throw RuntimeError("the system does not take shared pages back");
}

std::vector<bool> MpiBackend::find_staged(const Streams& streams) const {
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

std::shared_ptr<PreparedStreams> MpiBackend::prepare(Streams streams) {
  job_->free_retired();
  DeviceRanks ranks = ranks_of(streams.device_count);
  return make_stream_run(*job_, std::move(streams), std::move(ranks));
}

std::vector<double> MpiBackend::link_rates(std::int64_t device_count) const {
  const std::vector<double>& rates = job_->options.link_rates;
  return static_cast<std::int64_t>(rates.size()) == device_count ? rates : std::vector<double>();
}

Executor MpiBackend::executor(TileOwner owner) const {
  Executor executor = Backend::executor(owner);
  if (owner == TileOwner::caller) executor.first_weight = 2;
  const std::vector<std::int64_t>& hosts = job_->host.numbers();
  const bool has_hosts = std::any_of(hosts.begin(), hosts.end(), [&](auto host) { return host != hosts[0]; });
  if (has_hosts) executor.exchange_weight = 0.5;
  return executor;
}

}  // namespace retile::mpi
