// Moves the arrays of a whole model from one layout each to another, within a cap on the bytes that a device may hold
// beyond the arrays' own tiles.
//
//   retile::transfer::Transfer transfer({{"wq", problem_of_wq}, {"wk", problem_of_wk}}, {.max_bytes = 64 << 20});
//   transfer.run(std::vector<retile::transfer::ArrayMemory>{{"wq", {...}, {...}}, ...});   // after every training step
//
// Everything throws RuntimeError with a sentence for each memory that is null or does not fit its tile, before anything
// is moved. Several fields with one layout each are arrays of one transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/machine/machine.h"
#include "retile/planner/problem.h"
#include "retile/redistribute.h"

namespace retile::transfer {

// An array of a transfer. Tiles with padding, halos or columns first are moved as they lie, as in RedistributeOptions.
struct TransferArray {
  std::string name;
  Problem problem;
  std::vector<MemoryLayout> sources = {};
  std::vector<MemoryLayout> targets = {};
};

struct TransferOptions {
  std::int64_t max_bytes = std::int64_t{256} << 20U;  // per device, beyond the tiles
  Engine* engine = nullptr;                           // null: threads, one for each core
  // Sources are donated: their pages go back to the system as they are read, and their contents are lost.
  // A device then has no more than the larger of its source and target tiles and `max_bytes`, where nobody has touched
  // its targets yet and tiles begin at pages (make_page_buffer(), Engine::allocate()); elsewhere up to two pages more
  // for each tile. Sources and targets are packed, with nothing else in their memory. In memory of a device, tiles of a
  // side lie one after the other in the order of the arrays, each from a multiple of 256 bytes on, in memory of
  // Engine::allocate_pages(), whose pages are there for sources and to come for targets.
  bool in_place = false;
  // The machine that the engine's devices are on: messages are long enough for its links (docs/machines.md). None:
  // they suit one host, and hosts on links of some gigabits a second.
  std::optional<Machine> machine = std::nullopt;
};

// A span for each of this process's devices, in ascending order; empty where it holds nothing.
struct ArrayMemory {
  std::string_view name;
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> targets;
};

struct TransferStatistics {
  std::int64_t received_max = 0;  // bytes of the device that gets the most, own parts not counted
  std::int64_t staging_max = 0;   // bytes beyond the tiles, of the device that has the most
  double seconds = 0;
};

class Transfer {
 public:
  // The engine need not outlive it. With several processes, making it is collective. Throws InputError where arrays
  // have no names or the same, are sums, or the cap is too small; RuntimeError where layouts of memory are wrong.
  explicit Transfer(const std::vector<TransferArray>& arrays, const TransferOptions& options = {});
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;
  ~Transfer();

  // The devices of this process, ascending.
  const std::vector<Device>& devices() const;

  // Bytes of source and target of an array on the n-th device of this process.
  TileBytes tile_bytes(std::size_t array, std::size_t device) const;

  // Moves all arrays, given in any order. No target overlaps another tile. Nothing but the targets' elements is
  // written. With several processes, each runs equally often, as in ByteRedistribution::run(): no call is collective,
  // and where one process cannot run, those that wait for it throw as well.
  void run(std::span<const ArrayMemory> arrays);

  // Runs in the background, as ByteRedistribution::start() does.
  void start(std::span<const ArrayMemory> arrays);
  bool test();
  void wait();

  // Tells the other processes that this one cannot run the transfer, see ByteRedistribution::refuse().
  void refuse(const std::string& why);

  // Totals of the last run over all processes. Collective.
  TransferStatistics statistics();

  // Checks memory as run() does, but collectively, as in ByteRedistribution::check().
  void check(std::span<const ArrayMemory> arrays) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retile::transfer
