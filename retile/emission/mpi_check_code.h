// The parts of the check in emitted MPI code. A '@' stands for a text that depends on the plan.
#pragma once

namespace retile::emission {

struct MpiCheckCode {
  static constexpr const char* numbers = R"(
// --- A check, in which every element is the number of its place in the array.

Element number(long long place) { return Element(@); }
)";

  static constexpr const char* places = R"(
// The row-major place, in the array before any step, of the element with this row-major number in a box.
long long place_of(const Box& box, long long element) {@
  long long place = 0, step = 1;
  for (int i = dimensions; i-- > 0; step *= shape[i]) {
    const int extent = box.hi[i] - box.lo[i];
    place += (box.lo[i] + element % extent)@ * step;
    element /= extent;
  }
  return place;
}

template <typename Visit>
void for_each_element(const std::vector<Tile>& tiles, Element* memory, Visit visit) {
  for (const Tile& tile : tiles) {
    for (long long i = 0; i < size(tile.box); ++i) {
      long long rest = i;
      MPI_Aint at = tile.offset;
      for (int d = dimensions; d-- > 0; rest /= tile.box.hi[d] - tile.box.lo[d]) {
        at += rest % (tile.box.hi[d] - tile.box.lo[d]) * tile.strides[d];
      }
      visit(memory[at], place_of(tile.box, i));
    }
  }
}
)";

  static constexpr const char* places_of_runs = R"(
// Visits the elements of a rank's tile with their row-major places in the array.
template <typename Visit>
void for_each_element(const std::vector<Tile>& tiles, Element* memory, Visit visit) {@
  const Tile& tile = tiles.front();
  std::vector<std::pair<MPI_Aint, long long>> elements{{0, 0}};  // places in memory and in the array
  for (int i = 0; i < dimensions; ++i) {
    std::vector<std::pair<MPI_Aint, long long>> longer;
    for (const auto& [at, place] : elements) {
      for (const Run& run : tile.box.runs[i]) {
        for (int x = run.lo; x < run.hi; ++x) {
          longer.push_back({at + (run.start + x - run.lo) * tile.strides[i], place * shape[i] + x@});
        }
      }
    }
    elements = longer;
  }
  for (const auto& [at, place] : elements) visit(memory[at], place);
}
)";

  // The '@' are the number of the array's dimensions, which of them dimension i is of, and the length of a tile in
  // dimension i.
  static constexpr const char* padded_strides = R"(
// Strides of an array that is longer than the tile by one in every dimension: row-major, or with its first dimension
// innermost, as in Fortran.
std::vector<MPI_Aint> padded(const Tile& tile, bool is_fortran) {
  std::vector<MPI_Aint> lengths(@, 1), strides(@);
  for (int i = 0; i < dimensions; ++i) lengths[@] *= @;
  MPI_Aint stride = 1;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::size_t dimension = is_fortran ? i : strides.size() - 1 - i;
    strides[dimension] = stride;
    stride *= lengths[dimension] + 1;
  }
  return strides;
}
)";

  // The '@' is the check of a run.
  static constexpr const char* main = R"(
int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != rank_count) {
    if (rank == 0) std::fprintf(stderr, "start %d ranks, not %d\n", rank_count, ranks);
    MPI_Finalize();
    return 2;
  }
  long long wrong = 0, all = 0;
@  MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf(all == 0 ? "verified on %d ranks\n" : "wrong on %d ranks\n", ranks);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
)";
};

}  // namespace retile::emission
