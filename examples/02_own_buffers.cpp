// 2. Memory of your own, moved on the threads of this process: once, and prepared for many runs.
#include <cstdio>
#include <span>
#include <vector>

#include "retile/retile.h"

namespace {

constexpr int rows = 8;
constexpr int columns = 6;

// What element (row, column) of the whole array is.
float element(int row, int column) { return static_cast<float>(100 * row + column); }

}  // namespace

int main() try {
  // Two devices. Each has four rows and wants three columns.
  const retile::Problem problem =
      retile::parse_problem({"mesh", "a=2"}, {"source", "[4{a}8, 6]"}, {"target", "[8, 3{a}6]"});

  std::vector<std::vector<float>> source_tiles(2);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      source_tiles[static_cast<std::size_t>(row / 4)].push_back(element(row, column));
    }
  }
  // Targets lie with a halo of one element around them: 10 x 5 elements for 8 x 3.
  std::vector<std::vector<float>> target_tiles(2, std::vector<float>(10 * 5, -1));
  retile::RedistributeOptions options;
  options.targets = {retile::layout_within({10, 5}, {1, 1}, sizeof(float))};

  const std::vector<std::span<const float>> sources(source_tiles.begin(), source_tiles.end());
  const std::vector<std::span<float>> targets(target_tiles.begin(), target_tiles.end());
  retile::Redistribution<float> redistribution(problem, options);  // plans, checks, works out every copy
  for (int step = 0; step < 3; ++step) redistribution.run(sources, targets);

  int wrong = 0;
  for (int device = 0; device < 2; ++device) {
    for (int row = 0; row < 10; ++row) {
      for (int column = 0; column < 5; ++column) {
        const bool is_halo = row == 0 || row == 9 || column == 0 || column == 4;
        const float expected = is_halo ? -1 : element(row - 1, 3 * device + column - 1);
        wrong += target_tiles[static_cast<std::size_t>(device)][static_cast<std::size_t>(5 * row + column)] != expected;
      }
    }
  }
  std::printf("%d elements are wrong\n", wrong);

  // A span that is too short is refused before anything moves.
  retile::redistribute<float>(problem, {sources}, {std::vector<std::span<float>>{targets[0], targets[1].first(4)}});
} catch (const retile::RuntimeError& error) {
  std::printf("%s\n", error.what());
}
