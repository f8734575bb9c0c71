// Plans in two levels: an exchange inside hosts and one across them, in either order. Instead of a short message to
// each device of all hosts, a device sends longer messages to a few of them.
//
// Between the exchanges, the devices of a host share the block that the host holds (or wants): each device has a part,
// cut as the other end cuts it. One of the two exchanges then stays inside hosts. In the other, a device exchanges only
// with the devices of other hosts that want its part (or hold it), and not with all.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/planner/lowering.h"
#include "retile/planner/planned_steps.h"

namespace retile {
namespace {

using Hosts = std::vector<std::vector<Device>>;

// The most devices for which tables are made; above, the plan is one exchange.
constexpr std::int64_t most_devices = 4096;

std::size_t count_tiles(const TileTable& table, const std::vector<Device>& host) {
  std::set<std::int64_t> numbers;
  for (const Device device : host) numbers.insert(table.number(static_cast<std::size_t>(device)));
  return numbers.size();
}

// The number of tiles along each dimension of the block that a host's tiles form; nothing where they form no block.
std::optional<Shape> block_of_tiles(const TileTable& table, const std::vector<Device>& host) {
  Shape first(table.rank(), INT64_MAX);
  Shape extent(table.rank());
  for (std::size_t i = 0; i < table.rank(); ++i) {
    std::int64_t last = 0;
    for (const Device device : host) {
      const std::int64_t tile = table.tile(static_cast<std::size_t>(device))[i];
      first[i] = std::min(first[i], tile);
      last = std::max(last, tile);
    }
    extent[i] = last - first[i] + 1;
    if (first[i] % extent[i] != 0 || table.grid[i] % extent[i] != 0) return std::nullopt;
  }
  if (static_cast<std::int64_t>(count_tiles(table, host)) != product(extent)) return std::nullopt;
  return extent;
}

// The value of the function that is the same for all hosts; nothing where hosts differ.
template <typename Function>
auto common_of(const Hosts& hosts, Function of_host) -> decltype(of_host(hosts[0])) {
  const auto common = of_host(hosts[0]);
  const bool is_common =
      std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) { return of_host(host) == common; });
  return is_common ? common : std::nullopt;
}

// The blocks that hosts have at one end, cut among their devices as the other end cuts them. Nothing where hosts have
// no equal blocks.
std::optional<TileTable> blocks_cut_as(const TileTable& end, const TileTable& other, const Hosts& hosts,
                                       const Shape& global) {
  const auto extent = common_of(hosts, [&](const auto& host) { return block_of_tiles(end, host); });
  const auto tiles = common_of(hosts, [&](const auto& host) { return std::optional(count_tiles(other, host)); });
  if (!extent || !tiles) return std::nullopt;
  Grid blocks = end.grid;
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] /= (*extent)[i];
  Grid cut = blocks;
  auto left = static_cast<std::int64_t>(*tiles);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const std::int64_t factor = std::gcd(std::gcd(left, other.grid[i]), global[i] / blocks[i]);
    cut[i] *= factor;
    left /= factor;
  }
  const TileTable of_hosts = coarsen(end, blocks);
  return deal(of_hosts, of_hosts, cut, of_hosts);
}

bool is_within(const TileTable& after, const TileTable& before) {
  for (std::size_t i = 0; i < before.rank(); ++i) {
    if (after.grid[i] % before.grid[i] != 0) return false;
  }
  return coarsen(after, before.grid) == before;
}

void add_exchange(const Shape& global, const TileTable& before, const TileTable& after, std::vector<Step>& steps) {
  if (before == after) return;
  if (is_within(after, before)) return add_slice(global, before, after, steps);
  steps.push_back(make_step(global, ExchangeStep{}, before, after));
}

}  // namespace

PlannedSteps plan_two_level(const TypedProblem& problem, const PlanOptions& options) {
  if (options.machine == nullptr) {
    throw InputError("plans in two levels are for a machine with hosts", "add --machine FILE (docs/machines.md)");
  }
  const Hosts& hosts = options.machine->machine().hosts;
  const Shape global = problem.source().global_shape();
  const Placement before(problem.source());
  PlannedSteps best = plan_direct(problem);
  if (hosts.size() == 1 || problem.mesh().device_count() > most_devices) return best;
  const auto cost_of = [&](const std::vector<Step>& steps) {
    const std::vector<std::int64_t> costs =
        options.machine->costs({problem.mesh(), before, steps}, problem.element_size());
    return std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
  };
  const TileTable source = tile_table(problem.source());
  const TileTable target = tile_table(problem.target());
  std::optional<std::int64_t> least;
  for (const bool is_inside_first : {true, false}) {
    const auto middle =
        is_inside_first ? blocks_cut_as(source, target, hosts, global) : blocks_cut_as(target, source, hosts, global);
    if (!middle || *middle == source || *middle == target) continue;
    std::vector<Step> steps;
    add_exchange(global, source, *middle, steps);
    add_exchange(global, *middle, target, steps);
    const std::int64_t cost = cost_of(steps);
    if (least && *least <= cost) continue;
    least = cost;
    best.steps = std::move(steps);
  }
  return best;
}

}  // namespace retile
