#include "tests/support/split_engine.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"

namespace retile::test {
namespace {

// What the threads of a run share.
class Meeting {
 public:
  explicit Meeting(int processes)
      : barrier_(processes), tiles_(static_cast<std::size_t>(processes)), brought_(tiles_.size()) {}

  std::size_t processes() const { return tiles_.size(); }

  // The first process moves everybody's tiles.
  RunStatistics execute(std::size_t process, PreparedRun& run, Tiles& mine) {
    tiles_[process] = &mine;
    barrier_.arrive_and_wait();
    if (process == 0) move_all(run);
    barrier_.arrive_and_wait();
    if (failure_) std::rethrow_exception(failure_);
    return statistics_;
  }

  // What every process brought, on all of them.
  std::vector<std::vector<std::byte>> exchange(std::size_t process, std::span<const std::byte> mine) {
    brought_[process].assign(mine.begin(), mine.end());
    barrier_.arrive_and_wait();
    std::vector<std::vector<std::byte>> all = brought_;
    barrier_.arrive_and_wait();
    return all;
  }

 private:
  void move_all(PreparedRun& run) {
    try {
      Tiles all;
      for (Tiles* part : tiles_) std::move(part->begin(), part->end(), std::back_inserter(all));
      statistics_ = run.execute(all);
      auto next = all.begin();
      for (Tiles* part : tiles_) {
        for (Tile& tile : *part) tile = std::move(*next++);
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  std::barrier<> barrier_;
  std::vector<Tiles*> tiles_;
  std::vector<std::vector<std::byte>> brought_;
  RunStatistics statistics_;
  std::exception_ptr failure_;
};

class SplitProcesses final : public Processes {
 public:
  SplitProcesses(Meeting& meeting, std::size_t process) : meeting_(meeting), process_(process) {}

  int rank() const override { return static_cast<int>(process_); }
  int size() const override { return static_cast<int>(meeting_.processes()); }
  std::int64_t least(std::int64_t number) const override {
    std::int64_t least = number;
    for (const auto& other : meeting_.exchange(process_, std::as_bytes(std::span(&number, 1)))) {
      std::memcpy(&number, other.data(), sizeof number);
      least = std::min(least, number);
    }
    return least;
  }
  void add_up(std::span<std::uint64_t> numbers) const override {
    const auto all = meeting_.exchange(process_, std::as_bytes(numbers));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = 0;
      for (const auto& other : all) {
        std::uint64_t number = 0;
        std::memcpy(&number, other.data() + i * sizeof number, sizeof number);
        numbers[i] += number;
      }
    }
  }
  void broadcast(std::span<std::byte> bytes, int from) const override {
    const auto all = meeting_.exchange(process_, bytes);
    std::copy_n(all[static_cast<std::size_t>(from)].begin(), bytes.size(), bytes.begin());
  }

 private:
  Meeting& meeting_;
  const std::size_t process_;
};

class SplitRun final : public PreparedRun {
 public:
  SplitRun(Meeting& meeting, std::size_t process, const Movement& movement, std::vector<Device> devices,
           std::int64_t element_size, const BufferStrides& strides)
      : meeting_(meeting),
        process_(process),
        source_(movement.source),
        devices_(std::move(devices)),
        element_size_(element_size),
        strides_(strides),
        whole_(make_reference_engine()->prepare(movement, element_size)) {}

  RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    Tiles tiles;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Box box = box_of_tile(source_, devices_[i]);
      tiles.push_back({box, Buffer(static_cast<std::size_t>(source_.size(devices_[i]) * element_size_))});
      if (strides_.sources.empty()) {
        std::copy_n(sources[i], tiles[i].bytes.size(), tiles[i].bytes.data());
      } else {
        copy_box(sources[i], {box, strides_.sources[i]}, tiles[i].bytes.data(), box, box, element_size_);
      }
    }
    const RunStatistics statistics = execute(tiles);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (strides_.targets.empty()) {
        std::copy_n(tiles[i].bytes.data(), tiles[i].bytes.size(), targets[i]);
        continue;
      }
      const Strides strides = strides_.targets[i];
      copy_box(tiles[i].bytes.data(), tiles[i].box, targets[i], {tiles[i].box, strides}, tiles[i].box, element_size_);
    }
    return statistics;
  }

  RunStatistics execute(Tiles& tiles) override { return meeting_.execute(process_, *whole_, tiles); }

  // Without tiles, which all processes are refused.
  void refuse(const std::string&) override {
    Tiles none;
    try {
      execute(none);
    } catch (const RuntimeError&) {
      return;
    }
  }

 private:
  Meeting& meeting_;
  std::size_t process_;
  Placement source_;
  std::vector<Device> devices_;
  std::int64_t element_size_;
  BufferStrides strides_;
  std::unique_ptr<PreparedRun> whole_;
};

class SplitEngine final : public Engine {
 public:
  SplitEngine(Meeting& meeting, std::size_t process)
      : meeting_(meeting), process_(process), processes_(meeting, process) {}

  const char* name() const override { return "split"; }

  std::vector<Device> devices(std::int64_t device_count) const override {
    const auto processes = static_cast<std::int64_t>(meeting_.processes());
    const std::int64_t share = (device_count + processes - 1) / processes;
    std::vector<Device> mine;
    for (Device device = 0; device < device_count; ++device) {
      if (device / share == static_cast<std::int64_t>(process_)) mine.push_back(device);
    }
    return mine;
  }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    return std::make_unique<SplitRun>(meeting_, process_, movement, devices(movement.mesh.device_count()), element_size,
                                      strides);
  }

  const Processes& processes() const override { return processes_; }

 private:
  Meeting& meeting_;
  const std::size_t process_;
  const SplitProcesses processes_;
};

}  // namespace

void run_split(int processes, const std::function<void(int process, Engine& engine)>& action) {
  Meeting meeting(processes);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(processes));
  {
    std::vector<std::jthread> threads;
    for (int process = 0; process < processes; ++process) {
      threads.emplace_back([&, process] {
        try {
          SplitEngine engine(meeting, static_cast<std::size_t>(process));
          action(process, engine);
        } catch (...) {
          failures[static_cast<std::size_t>(process)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace retile::test
