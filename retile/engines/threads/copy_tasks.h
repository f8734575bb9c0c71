// The copies of a stage, cut and ordered for workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/piece_copies.h"
#include "retile/engines/schedule.h"
#include "retile/engines/threads/worker_pool.h"

namespace retile {

class CopyTasks {
 public:
  // Copies are listed where that takes at most so many bytes, see usual_listed_bytes.
  CopyTasks(Stage stage, std::int64_t element_size, int workers, std::int64_t most_bytes);

  // Bytes that each device gets from others.
  const std::vector<std::int64_t>& received() const { return received_; }
  // Of the lists; 0 where there are none.
  std::int64_t listed_bytes() const;

  // Tiles by device.
  void run(WorkerPool& pool, std::span<const std::byte* const> from, std::span<std::byte* const> to) const;

 private:
  // A part of a copy.
  struct Part {
    std::int64_t position = 0;  // of its first element in the global array, whose dimensions are in the targets' order
    std::size_t copy = 0;
    ByteRange range;
  };

  void add_piece(const Transfer& piece);
  void add_copy(const PlacedCopy& placed, const Box& box);
  void make_tasks();
  void run_listed(std::size_t task, std::span<const std::byte* const> from, std::span<std::byte* const> to) const;
  void run_batch(std::size_t batch, std::span<const std::byte* const> from, std::span<std::byte* const> to) const;

  std::unique_ptr<const Stage> stage_;
  std::int64_t element_size_;
  std::int64_t task_bytes_;
  Stores stores_ = Stores::cached;
  std::vector<std::int64_t> received_;
  // Listed copies.
  PieceCopies shapes_;
  std::vector<PlacedCopy> copies_;
  std::vector<Part> parts_;               // in the order of their positions
  std::vector<std::size_t> task_begins_;  // in parts_, and the end
  // Or elements of devices' results, where nothing is copied.
  struct Reduction {
    Device device = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  void make_reductions();
  std::vector<Reduction> reductions_;
  // Or where the devices of each task begin; empty where copies are listed.
  std::vector<PieceCursor> batches_;
};

}  // namespace retile
