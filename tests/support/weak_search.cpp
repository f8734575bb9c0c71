#include "tests/support/weak_search.h"

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "tests/support/collectives.h"

namespace retile::test {

WeakSearch::WeakSearch(const Mesh& mesh, const WeakType& source) {
  using Node = std::pair<Shape, bool>;
  using Entry = std::pair<std::int64_t, Node>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  const auto reach = [&](const Node& node, std::int64_t cost) {
    const auto [entry, is_new] = costs_.try_emplace(node, cost);
    if (!is_new && entry->second <= cost) return;
    entry->second = cost;
    open.emplace(cost, node);
  };
  reach({source.local, false}, 0);
  while (!open.empty()) {
    const auto [cost, node] = open.top();
    open.pop();
    if (costs_.at(node) < cost) continue;
    const WeakType type{source.global, node.first};
    if (!node.second) reach({node.first, true}, cost + local_size(type));
    for (const WeakStep& step : weak_steps(mesh, type, Factors::any)) {
      const WeakType next = type_after(mesh, type, step);
      const std::int64_t prices[] = {0, local_size(type), local_size(next)};
      const int price = step.kind == CollectiveKind::dynslice ? 0 : step.kind == CollectiveKind::alltoall ? 1 : 2;
      reach({next.local, node.second}, cost + prices[price]);
    }
  }
}

}  // namespace retile::test
