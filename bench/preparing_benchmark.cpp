// Prints what one process's part of an exchange takes to work out, as the number of devices grows: rows to columns, so
// that every device sends to every other one.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "bench/heap_meter.h"
#include "retile/plan/lists.h"
#include "retile/planner/planner.h"
#include "retile/schedule/streams.h"
#include "retile/types/text.h"

namespace retile::bench {
namespace {

using Clock = std::chrono::steady_clock;

Movement exchange_of(std::int64_t devices) {
  const Problem problem =
      parse_problem({"mesh", fmt::format("a={}", devices)}, {"source", fmt::format("[1{{a}}{}, {}]", devices, devices)},
                    {"target", fmt::format("[{}, 1{{a}}{}]", devices, devices)});
  PlanOptions options;
  options.planner = PlannerKind::direct;
  return make_plan(problem, options).movement;
}

void measure(std::int64_t devices) {
  const Movement movement = exchange_of(devices);
  const HeapMeter heap;
  const Clock::time_point start = Clock::now();
  std::vector<Stage> stages = make_schedule(movement, 4, {});
  const Device own = devices / 3;
  const Streams streams =
      make_streams(std::make_shared<const Stage>(std::move(stages.front())), {&own, 1}, usual_listed_bytes);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{:8} {:10} {:9.2f} ms {:8.2f} MB\n", devices, streams.pieces.size(), seconds * 1e3,
             static_cast<double>(heap.peak_bytes()) * 1e-6);
}

}  // namespace
}  // namespace retile::bench

int main() {
  fmt::print(" devices     pieces         time        heap\n");
  for (std::int64_t devices = 64; devices <= 16384; devices *= 4) retile::bench::measure(devices);
}
