// The frame of runs: parts between tiles, one after the other, whatever moves the pieces. It owns staging, checks what
// it is given, tells failures, and counts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/backend.h"
#include "retile/engines/engine.h"

namespace retile {

// A part of a run: pieces that move, or a reduction. Stops are where tiles are: 0 is the sources, the last one the
// targets. Pieces that are passed on go from a stop to itself.
struct RunPart {
  std::shared_ptr<PreparedStreams> streams;  // null for a reduction
  std::optional<ReduceStep> reduction;
  std::size_t from = 0;
  std::size_t to = 0;
  std::string step;                        // for messages: "step 2, exchange"; empty if there are no steps
  std::vector<std::int64_t> staging = {};  // bytes by device of this process, in the last execution
};

// Bytes of tiles that a device holds at once.
struct Peaks {
  std::int64_t predicted = 0;
  std::int64_t measured = 0;
};

// Executes parts one after the other. Where their tiles come from is for those below to say.
class StagedRun : public PreparedRun, private Work {
 public:
  using Sources = std::span<const std::byte* const>;
  using Targets = std::span<std::byte* const>;

  StagedRun(std::shared_ptr<Backend> backend, std::int64_t device_count);

  void start(Sources sources, Targets targets) override;
  bool test() override;
  void wait() override;
  void run(Sources sources, Targets targets) override;
  using PreparedRun::execute;
  RunStatistics execute(Sources sources, Targets targets) override;
  RunStatistics statistics() override;

  void give_back(const std::byte* pages, std::size_t bytes) override { backend().give_back(pages, bytes); }
  void take(const std::byte* pages, std::size_t bytes) override { backend().take(pages, bytes); }
  void refuse(const std::string& why) override { backend().tell_failure(place_of("") + why); }
  void free_scratch() override;

 protected:
  const std::vector<Device>& devices() const { return devices_; }
  Backend& backend() const { return *backend_; }
  const std::vector<RunPart>& parts() const { return parts_; }
  void add(RunPart part) { parts_.push_back(std::move(part)); }
  Sources sources() const { return sources_; }
  Targets targets() const { return targets_; }
  // Tiles that are written, seen as tiles that are read.
  static Sources as_sources(Targets tiles);

  // Throws RuntimeError if the execution cannot go between these buffers. Makes what it needs.
  virtual void require_ready(Sources sources, Targets targets) = 0;
  // The lists live until the part is done.
  virtual TilePointers tiles_of(const RunPart& part) = 0;
  virtual void combine(const RunPart& part, const TilePointers& tiles) = 0;
  virtual Peaks peaks() const = 0;

  // Buffers are given round by round if there is somebody to tell when one is done.
  void set_out(Sources sources, Targets targets, RoundDone done);
  // For tiles that are given part by part.
  void set_out();
  void launch();
  // One part between other tiles.
  void finish_part(std::size_t number, const TilePointers& tiles);
  void finish_queued();

  // Adds the process and the step to what fails, and tells the other processes.
  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const RuntimeError& error) {
      leave();
      if (backend().failure() != nullptr) throw;  // of another process
      const std::string text = place_of(next_ < parts_.size() ? parts_[next_].step : "") + error.what();
      backend().tell_failure(text);
      throw RuntimeError(text);
    } catch (const std::bad_alloc&) {
      leave();
      backend().tell_failure(out_of_memory_);
      throw;
    } catch (const std::exception& error) {
      leave();
      backend().tell_failure(error.what());
      throw;
    }
  }

  void record(std::int64_t start, Peaks peaks);
  // Called by destructors: executions do not outlive what they use.
  void end();

 private:
  enum class PartState { waiting, under_way, done };
  class PartWork;

  void require_idle();
  bool is_done() const override { return next_ == parts_.size() && (queued_ == nullptr || queued_->is_done()); }
  bool advance() override;
  bool advance_part(RunPart& part, const TilePointers& tiles);
  // False while other processes read what is staged.
  bool begin(RunPart& part, const TilePointers& tiles);
  // All parts in this thread.
  void finish();
  // No longer among those that go on beside others.
  void leave();
  void free_staging();
  bool are_shared(const TilePointers& tiles) const;
  std::string place_of(const std::string& step) const;

  const std::shared_ptr<Backend> backend_;
  const std::vector<Device> devices_;
  const std::string out_of_memory_;
  std::vector<RunPart> parts_;
  Buffer staging_;
  std::shared_ptr<PreparedStreams> staging_user_;  // of whom somebody may still read
  // The execution.
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  RoundDone done_;
  std::size_t next_ = 0;  // part
  PartState state_ = PartState::waiting;
  TilePointers tiles_;
  std::unique_ptr<Work> queued_;  // what a device's queue holds when all parts are through
  bool is_begun_ = false;         // and goes on when it is advanced
  std::future<void> thread_;      // or in a thread
  std::int64_t start_ = 0;
  std::int64_t end_ = 0;
  Peaks peaks_;
};

}  // namespace retile
