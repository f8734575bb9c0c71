// 1. A plan: two layouts of an array in, the steps between them out.
#include <cstdio>
#include <string>

#include "retile/retile.h"

int main() try {
  // 32 devices. The first dimension is cut along y, then within that along x (axes are listed minor to major); the
  // target cuts two other dimensions along the same axes.
  const retile::Problem problem = retile::parse_problem({"mesh", "x=4,y=2,z=4"}, {"source", "[1{x,y}8, 8, 8, 4]"},
                                                        {"target", "[8, 4{y}8, 2{x}8, 4]"});

  const retile::Plan plan = retile::make_plan(problem);
  std::fputs(to_string(plan).c_str(), stdout);

  // What a run of it takes on each device, and that it is right: the verifier replays every box.
  const std::int64_t bytes = predict_peak_bytes(plan.movement, bytes_of(problem.element_type()), retile::TileUse::kept);
  std::printf("a run holds %lld bytes per device, %zu faults\n", static_cast<long long>(bytes),
              find_faults(plan).size());

  // Mistakes are errors that say where they are.
  retile::parse_problem({"mesh", "x=4"}, {"source", "[2{x}8]"}, {"target", "[2{y}8]"});
} catch (const retile::InputError& error) {
  std::fputs(to_string(error.diagnostic()).c_str(), stdout);
}
