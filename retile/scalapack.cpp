#include "retile/scalapack.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "retile/base/diagnostic.h"

namespace retile {
namespace {

// Places in a descriptor.
enum Entry : std::size_t { dtype, context, rows, columns, row_block, column_block, first_row, first_column, leading };

constexpr int dense = 1;

[[noreturn]] void fail(const char* name, int value, const std::string& hint) {
  throw InputError(fmt::format("{} of a matrix's descriptor is {}", name, value), hint);
}

void require(MatrixDescriptor descriptor) {
  if (descriptor[dtype] != dense) fail("DTYPE_", descriptor[dtype], "1 stands for a dense matrix");
  if (descriptor[rows] < 0) fail("M_", descriptor[rows], "a matrix has 0 rows or more");
  if (descriptor[columns] < 0) fail("N_", descriptor[columns], "a matrix has 0 columns or more");
  if (descriptor[row_block] < 1) fail("MB_", descriptor[row_block], "a block has a row at least");
  if (descriptor[column_block] < 1) fail("NB_", descriptor[column_block], "a block has a column at least");
  if (descriptor[leading] < 1) fail("LLD_", descriptor[leading], "columns are an element apart at least");
}

void require_process(const char* name, int process, int count) {
  if (process >= 0 && process < count) return;
  fail(name, process, fmt::format("the grid has processes 0 to {} there", count - 1));
}

}  // namespace

Layout layout_from_descriptor(MatrixDescriptor descriptor, const ProcessGrid& grid) {
  require(descriptor);
  if (grid.rows < 1 || grid.columns < 1) {
    throw InputError(fmt::format("a grid of {} x {} processes", grid.rows, grid.columns),
                     "this process may be outside of the grid, where BLACS says -1");
  }
  require_process("RSRC_", descriptor[first_row], grid.rows);
  require_process("CSRC_", descriptor[first_column], grid.columns);
  const Mesh mesh({{"row", grid.rows}, {"column", grid.columns}});
  MeshLayout layout{mesh, {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  layout.view.push_back({{descriptor[rows], {mesh.whole(0)}, descriptor[row_block], descriptor[first_row]}});
  layout.view.push_back({{descriptor[columns], {mesh.whole(1)}, descriptor[column_block], descriptor[first_column]}});
  for (int row = 0; grid.ranks == MemoryOrder::column_major && row < grid.rows; ++row) {
    for (int column = 0; column < grid.columns; ++column) layout.devices.push_back(row + column * grid.rows);
  }
  return Layout(std::move(layout));
}

MemoryLayout memory_from_descriptor(MatrixDescriptor descriptor, std::int64_t element_size) {
  require(descriptor);
  return {0, {element_size, descriptor[leading] * element_size}};
}

}  // namespace retile
