// A cache of plans, for programs that ask for the same redistributions again and again.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "retile/plan/plan.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

// Keeps plans by mesh, source, target and options, and drops the least recently used one when there are too many.
// Thread-safe. A plan that a caller still holds lives on: plan it once, run it many times.
class PlanCache {
 public:
  explicit PlanCache(std::size_t most_plans = 1024) : most_plans_(most_plans) {}

  // The plan carries the id of the problem that it was first made for. Throws as make_plan() does.
  std::shared_ptr<const Plan> plan(const Problem& problem, const PlanOptions& options = {});

  struct Statistics {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::size_t plans = 0;
  };
  Statistics statistics() const;

 private:
  struct Key {
    Layout source;
    Layout target;
    ElementType element_type;  // part of the key, because a memory limit is in bytes
    PlanOptions options;

    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  using Entry = std::pair<Key, std::shared_ptr<const Plan>>;

  std::shared_ptr<const Plan> find(const Key& key);
  void keep(const Key& key, const std::shared_ptr<const Plan>& plan);

  const std::size_t most_plans_;
  mutable std::mutex mutex_;  // guards all below
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> index_;
  std::int64_t hits_ = 0;
  std::int64_t misses_ = 0;
};

}  // namespace retile
