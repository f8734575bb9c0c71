#include "retile/planner/plan_cache.h"

#include <functional>

namespace retile {
namespace {

void mix(std::size_t& hash, std::int64_t value) {
  hash ^= std::hash<std::int64_t>()(value) + 0x9E3779B97F4A7C15U + (hash << 6U) + (hash >> 2U);
}

void mix(std::size_t& hash, const std::string& text) { hash ^= std::hash<std::string>()(text); }

// Mixes a type into the hash. Neighbouring parts are merged first, so that equal types have equal hashes.
void mix(std::size_t& hash, const DistributedType& type) {
  for (const Axis& axis : type.mesh().axes()) {
    mix(hash, axis.name);
    mix(hash, axis.size);
  }
  for (const Dimension& dimension : type.dimensions()) {
    mix(hash, dimension.tile);
    mix(hash, dimension.global);
    for (const AxisPart& part : merge_neighbours(dimension.axes)) {
      mix(hash, part.axis);
      mix(hash, part.major);
      mix(hash, part.size);
    }
  }
}

void mix(std::size_t& hash, const Executor& executor) {
  mix(hash, static_cast<std::int64_t>(executor.transport));
  hash ^= std::hash<double>()(executor.exchange_weight) ^ (std::hash<double>()(executor.first_weight) << 1U);
  mix(hash, executor.most_rounds.value_or(-1));
  mix(hash, executor.memory.staging);
}

}  // namespace

std::size_t PlanCache::KeyHash::operator()(const Key& key) const {
  std::size_t hash = 0;
  for (const Layout* layout : {&key.source, &key.target}) {
    if (const DistributedType* type = layout->type()) {
      mix(hash, *type);
    } else {
      mix(hash, to_string(*layout));
    }
  }
  mix(hash, static_cast<std::int64_t>(key.options.planner));
  hash ^= std::hash<const CostModel*>()(key.options.cost_model);
  hash ^= std::hash<const CostModel*>()(key.options.machine) << 1U;
  mix(hash, static_cast<std::int64_t>(key.element_type));
  mix(hash, key.options.memory_limit.value_or(-1));
  mix(hash, static_cast<std::int64_t>(key.options.tiles));
  mix(hash, key.options.executor);
  return hash;
}

std::shared_ptr<const Plan> PlanCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void PlanCache::keep(const Key& key, const std::shared_ptr<const Plan>& plan) {
  const std::lock_guard lock(mutex_);
  if (most_plans_ == 0 || index_.contains(key)) return;  // another thread made it meanwhile
  entries_.emplace_front(key, plan);
  index_.emplace(key, entries_.begin());
  if (entries_.size() <= most_plans_) return;
  index_.erase(entries_.back().first);
  entries_.pop_back();
}

std::shared_ptr<const Plan> PlanCache::plan(const Problem& problem, const PlanOptions& options) {
  const Key key{problem.source(), problem.target(), problem.element_type(), options};
  if (auto known = find(key)) return known;
  // Planned outside the lock, so that other threads do not wait for it.
  auto made = std::make_shared<const Plan>(make_plan(problem, options));
  keep(key, made);
  return made;
}

PlanCache::Statistics PlanCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return {hits_, misses_, entries_.size()};
}

}  // namespace retile
