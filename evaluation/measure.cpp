#include "evaluation/measure.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/checking/made_array.h"
#include "retile/checking/run.h"

namespace retile::evaluation {
namespace {

// The tiles of this process's devices. The engine outlives them.
class TileSet {
 public:
  TileSet(const Placement& placement, const MadeArray& array, Engine& engine, TileOwner owner)
      : placement_(placement), array_(array), engine_(engine), devices_(engine.devices(placement.device_count())) {
    for (const Device device : devices_) {
      const auto bytes = static_cast<std::size_t>(checked_bytes(placement.size(device), array.element_size));
      tiles_.push_back(owner == TileOwner::engine ? engine.allocate(bytes) : Buffer(bytes));
    }
    engine.for_each(tiles_.size(), [&](std::size_t i) { fill(i); });
  }

  // Clears the tiles, so that an earlier contender's result cannot pass for the next one's.
  void clear() {
    for (Buffer& tile : tiles_) engine_.clear({tile.begin(), tile.end()});
  }

  std::optional<std::string> difference() const {
    std::vector<std::optional<std::string>> differences(tiles_.size());
    engine_.for_each(tiles_.size(), [&](std::size_t i) { differences[i] = difference_of(i); });
    const auto first = std::find_if(differences.begin(), differences.end(), [](const auto& one) { return one; });
    return first == differences.end() ? std::nullopt : *first;
  }

  const Placement& placement() const { return placement_; }

  std::vector<const std::byte*> sources() const {
    std::vector<const std::byte*> pointers;
    for (const Buffer& tile : tiles_) pointers.push_back(tile.data());
    return pointers;
  }
  std::vector<std::byte*> targets() {
    std::vector<std::byte*> pointers;
    for (Buffer& tile : tiles_) pointers.push_back(tile.data());
    return pointers;
  }

 private:
  void fill(std::size_t i) {
    const std::vector<Part> parts = placement_.parts(devices_[i]);
    if (engine_.has_host_memory()) return make_parts(array_, parts, tiles_[i].data());
    Buffer host(tiles_[i].size());
    make_parts(array_, parts, host.data());
    engine_.store({host.begin(), host.end()}, tiles_[i].data());
  }

  std::optional<std::string> difference_of(std::size_t i) const {
    const std::vector<Part> parts = placement_.parts(devices_[i]);
    if (engine_.has_host_memory()) return find_difference(array_, tiles_[i].data(), devices_[i], parts);
    Buffer host(tiles_[i].size());
    engine_.load(tiles_[i].data(), {host.begin(), host.end()});
    return find_difference(array_, host.data(), devices_[i], parts);
  }

  const Placement placement_;
  const MadeArray array_;
  Engine& engine_;
  const std::vector<Device> devices_;
  std::vector<Buffer> tiles_;
};

std::mt19937_64 random_of(const std::string& text) {
  std::seed_seq seed(text.begin(), text.end());
  return std::mt19937_64(seed);
}

class Race {
 public:
  Race(const Problem& problem, const std::vector<Contender>& contenders, Engine& engine, const MeasureOptions& options)
      : contenders_(contenders),
        engine_(engine),
        options_(options),
        array_{problem.source().global_shape(), bytes_of(problem.element_type()), options.seed},
        targets_(problem.target().placement(problem.device_count()), array_, engine, options.owner),
        starts_(contenders.size()),
        prepared_(contenders.size()),
        measurements_(contenders.size()),
        random_(random_of(problem.id())) {}

  std::vector<Measurement> run() {
    for (std::size_t i = 0; i < contenders_.size(); ++i) try_out(i);
    for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
      for (const std::size_t i : next_order()) {
        if (!measurements_[i].skipped) measurements_[i].seconds.push_back(execute(i).seconds);
      }
    }
    return std::move(measurements_);
  }

 private:
  // The order of contenders in a repetition: any, because a contender finds in the caches what the one before it left.
  // All processes draw the same.
  std::vector<std::size_t> next_order() {
    std::vector<std::size_t> order = numbers_below(contenders_.size());
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  // The source tiles of a contender: one set for each placement that contenders start from.
  const TileSet& sources_of(const Contender& contender) {
    for (const auto& set : sources_) {
      if (set->placement() == contender.source) return *set;
    }
    sources_.push_back(std::make_unique<TileSet>(contender.source, array_, engine_, options_.owner));
    return *sources_.back();
  }

  // Nothing is done here that takes long: processes would begin the run one after the other.
  RunStatistics execute(std::size_t i) { return prepared_[i]->execute(starts_[i], targets_.targets()); }

  // The first run, which is checked and not timed. A contender that fails in one process is skipped by all.
  void try_out(std::size_t i) {
    Measurement& measurement = measurements_[i];
    std::optional<std::string> failure;
    try {
      if (contenders_[i].plan) require_memory(*contenders_[i].plan, engine_, {array_.element_size});
      prepared_[i] = contenders_[i].prepare(engine_);
    } catch (const RuntimeError& error) {
      failure = error.what();
    }
    measurement.skipped = engine_.processes().first_text(failure);
    if (measurement.skipped) return;
    starts_[i] = sources_of(contenders_[i]).sources();
    targets_.clear();
    measurement.statistics = execute(i);
    measurement.skipped = engine_.processes().first_text(targets_.difference());
    if (measurement.skipped) measurement.skipped = "the result is wrong: " + *measurement.skipped;
  }

  const std::vector<Contender>& contenders_;
  Engine& engine_;
  const MeasureOptions options_;
  const MadeArray array_;
  TileSet targets_;
  std::vector<std::unique_ptr<TileSet>> sources_;
  std::vector<std::vector<const std::byte*>> starts_;  // the source tiles of each contender
  std::vector<std::unique_ptr<PreparedRun>> prepared_;
  std::vector<Measurement> measurements_;
  std::mt19937_64 random_;
};

}  // namespace

std::vector<Measurement> measure(const Problem& problem, const std::vector<Contender>& contenders, Engine& engine,
                                 const MeasureOptions& options) {
  return Race(problem, contenders, engine, options).run();
}

}  // namespace retile::evaluation
