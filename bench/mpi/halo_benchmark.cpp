// Times the exchange of a halo, in place and periodic, against the same by hand: subarrays, sent and received without
// blocking, rows first and then columns, so that corners come along.
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/mpi/contest.h"
#include "bench/mpi/mpi_program.h"
#include "retile/base/error.h"
#include "retile/mpi.h"
#include "retile/retile.h"

namespace retile::bench {
namespace {

struct Arguments {
  ContestArguments contest;
  std::vector<int> sizes{16, 100, 1000};
  int rows = 0;  // of a tile
  int columns = 0;
  int width = 1;  // of a ghost zone
};

// A tile and its ghost zones, row-major.
struct Padded {
  Padded(const Arguments& given, MPI_Comm cartesian) : arguments(given), grid(cartesian) {
    std::array<int, 2> periodic{};
    MPI_Cart_get(grid, 2, processes.data(), periodic.data(), place.data());
  }

  int padded_rows() const { return arguments.rows + 2 * arguments.width; }
  int padded_columns() const { return arguments.columns + 2 * arguments.width; }

  // The element at this place of the padded array; of the inside alone, or of all of it.
  double value(int row, int column) const {
    const int rows = arguments.rows * processes[0];
    const int columns = arguments.columns * processes[1];
    const int global_row = (place[0] * arguments.rows + row - arguments.width + rows) % rows;
    const int global_column = (place[1] * arguments.columns + column - arguments.width + columns) % columns;
    return global_row * 1e5 + global_column;
  }

  bool is_inside(int row, int column) const {
    const auto lies = [&](int at, int size) { return at >= arguments.width && at < arguments.width + size; };
    return lies(row, arguments.rows) && lies(column, arguments.columns);
  }

  std::vector<double> make(bool with_ghosts) const {
    std::vector<double> elements;
    for (int row = 0; row < padded_rows(); ++row) {
      for (int column = 0; column < padded_columns(); ++column) {
        elements.push_back(with_ghosts || is_inside(row, column) ? value(row, column) : -1);
      }
    }
    return elements;
  }

  const Arguments arguments;
  const MPI_Comm grid;
  std::array<int, 2> processes{};
  std::array<int, 2> place{};
};

class HandWritten {
 public:
  explicit HandWritten(const Padded& padded) : grid_(padded.grid) {
    const int width = padded.arguments.width;
    for (int dimension = 0; dimension < 2; ++dimension) {
      const int size = dimension == 0 ? padded.arguments.rows : padded.arguments.columns;
      MPI_Cart_shift(grid_, dimension, 1, &before_[at(dimension)], &after_[at(dimension)]);
      for (const int begin : {0, width, size, size + width}) {
        std::array<int, 2> whole{padded.padded_rows(), padded.padded_columns()};
        std::array<int, 2> shape{width, padded.arguments.columns};
        std::array<int, 2> corner{begin, width};
        if (dimension == 1) shape = {padded.padded_rows(), width};
        if (dimension == 1) corner = {0, begin};
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_create_subarray(2, whole.data(), shape.data(), corner.data(), MPI_ORDER_C, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        types_[at(dimension)].push_back(type);
      }
    }
  }
  HandWritten(const HandWritten&) = delete;
  HandWritten& operator=(const HandWritten&) = delete;
  ~HandWritten() {
    for (std::vector<MPI_Datatype>& types : types_) {
      for (MPI_Datatype& type : types) MPI_Type_free(&type);
    }
  }

  void run(double* memory) const {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<MPI_Datatype>& types = types_[i];  // ghosts before, first inside, last inside, ghosts after
      std::array<MPI_Request, 4> requests{};
      MPI_Irecv(memory, 1, types[0], before_[i], 0, grid_, &requests[0]);
      MPI_Irecv(memory, 1, types[3], after_[i], 1, grid_, &requests[1]);
      MPI_Isend(memory, 1, types[2], after_[i], 0, grid_, &requests[2]);
      MPI_Isend(memory, 1, types[1], before_[i], 1, grid_, &requests[3]);
      MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
    }
  }

 private:
  static std::size_t at(int dimension) { return static_cast<std::size_t>(dimension); }

  MPI_Comm grid_;
  std::array<int, 2> before_{};
  std::array<int, 2> after_{};
  std::array<std::vector<MPI_Datatype>, 2> types_;
};

class Ours {
 public:
  explicit Ours(const Padded& padded) : redistribution_(prepare(padded)), size_(padded.make(true).size()) {}

  void run(double* memory) {
    const std::span<const double> source(memory, size_);
    const std::span<double> target(memory, size_);
    redistribution_.run({&source, 1}, {&target, 1});
  }

 private:
  static Redistribution<double> prepare(const Padded& padded) {
    const Arguments& arguments = padded.arguments;
    const Mesh mesh({{"row", padded.processes[0]}, {"column", padded.processes[1]}});
    MeshLayout layout{mesh, {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
    layout.view.push_back({{std::int64_t{arguments.rows} * padded.processes[0], {mesh.whole(0)}}});
    layout.view.push_back({{std::int64_t{arguments.columns} * padded.processes[1], {mesh.whole(1)}}});
    const Layout source(layout);
    layout.halo.assign(2, {arguments.width, arguments.width, true});
    RedistributeOptions options;
    options.sources = {
        layout_within({padded.padded_rows(), padded.padded_columns()}, {arguments.width, arguments.width}, 8)};
    return mpi::prepare<double>(Problem("", source, Layout(layout), ElementType::f64), padded.grid, options);
  }

  Redistribution<double> redistribution_;
  std::size_t size_;
};

// The exchange of one contender on memory of its own, which is then right.
template <typename Exchange>
void require_right(Exchange& exchange, const Padded& padded, const char* name) {
  std::vector<double> memory = padded.make(false);
  exchange.run(memory.data());
  if (memory != padded.make(true)) throw RuntimeError(std::string("the exchange is wrong: ") + name);
}

void run_on(const Arguments& arguments, const mpi::Communicator& world, MPI_Comm grid) {
  const Padded padded(arguments, grid);
  HandWritten by_hand(padded);
  Ours ours(padded);
  require_right(by_hand, padded, "by hand");
  require_right(ours, padded, "ours");
  std::vector<double> memory = padded.make(false);
  const std::vector<Contender> contenders{
      {"ours", [&] { ours.run(memory.data()); }},
      {"MPI_Isend and MPI_Irecv of subarrays", [&] { by_hand.run(memory.data()); }}};
  const ContestTimes times = time_in_turn(contenders, arguments.contest, world);
  if (world.rank() != 0) return;
  const std::string title = fmt::format("halo of {} around {} x {} f64 on {} x {} ranks", arguments.width,
                                        arguments.rows, arguments.columns, padded.processes[0], padded.processes[1]);
  fmt::print("{}", contest_text(title, contenders, times));
}

void run(const Arguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  std::array<int, 2> processes{};
  const std::array<int, 2> periodic{1, 1};
  MPI_Dims_create(world.size(), 2, processes.data());
  MPI_Comm grid = MPI_COMM_NULL;
  MPI_Cart_create(world.get(), 2, processes.data(), periodic.data(), 0, &grid);
  Arguments one = arguments;
  for (const int size : arguments.sizes) {
    one.rows = one.columns = size;
    run_on(one, world, grid);
  }
  MPI_Comm_free(&grid);
}

void declare(CLI::App& app, Arguments& arguments) {
  declare_contest(app, arguments.contest);
  app.add_option("--sizes", arguments.sizes, "Rows and columns of a tile, one after the other")->capture_default_str();
  app.add_option("--width", arguments.width, "of a ghost zone")->capture_default_str();
}

constexpr Program<Arguments> halo_benchmark{
    "halo_benchmark", "Times the exchange of a halo in place against MPI_Isend and MPI_Irecv of subarrays.", declare,
    run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::halo_benchmark, argument_count, arguments);
}
