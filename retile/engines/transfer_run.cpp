#include "retile/engines/transfer_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/staged_run.h"

namespace retile {
namespace {

class TransferRun final : public StagedRun {
 public:
  TransferRun(std::shared_ptr<Backend> backend, std::vector<Streams> phases)
      : StagedRun(std::move(backend), phases.front().device_count),
        tile_count_(phases.front().array_count * devices().size()) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      add({this->backend().prepare(std::move(phases[i])), {}, std::min<std::size_t>(i, 1), 1, {}});
    }
  }
  TransferRun(const TransferRun&) = delete;
  TransferRun& operator=(const TransferRun&) = delete;
  ~TransferRun() override { end(); }

  using StagedRun::execute;
  RunStatistics execute(Tiles&) override { throw RuntimeError("a transfer moves many arrays, not donated tiles"); }

  void start_in_place(Sources sources, Targets targets, const RoundDone& done) override {
    set_out(sources, targets, done);
    launch();
  }

 protected:
  void require_ready(Sources sources, Targets targets) override {
    if (sources.size() == tile_count_ && targets.size() == tile_count_) return;
    throw RuntimeError(fmt::format("the run is given {} source and {} target buffers for {} tiles", sources.size(),
                                   targets.size(), tile_count_));
  }

  TilePointers tiles_of(const RunPart& part) override {
    return {part.from == 0 ? sources() : as_sources(targets()), targets()};
  }

  void combine(const RunPart&, const TilePointers&) override { throw InternalError("transfers add nothing up"); }
  Peaks peaks() const override { return {}; }

 private:
  const std::size_t tile_count_;
};

}  // namespace

std::unique_ptr<PreparedRun> make_transfer_run(std::shared_ptr<Backend> backend, std::vector<Streams> phases) {
  return std::make_unique<TransferRun>(std::move(backend), std::move(phases));
}

}  // namespace retile
