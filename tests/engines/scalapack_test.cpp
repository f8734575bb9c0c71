#include "retile/scalapack.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "retile/base/diagnostic.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

using Descriptor = std::array<int, 9>;

TEST(Scalapack, descriptors_are_layouts) {
  // 9 x 9 in blocks of 2 x 2 on 2 x 3 processes, the example of ScaLAPACK's users' guide.
  const Descriptor guide{1, 0, 9, 9, 2, 2, 0, 0, 5};
  const Layout layout = layout_from_descriptor(guide, {2, 3});
  EXPECT_EQ(describe(layout),
            "[9 cyclic 2{row}, 9 cyclic 2{column}] on mesh {row: 2, column: 3}, devices 0 to 5 with column fastest");
  // Rows and columns of the processes' parts, as the guide has them.
  const std::array<std::int64_t, 2> rows{5, 4};
  const std::array<std::int64_t, 3> columns{4, 3, 2};
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = 0; column < 3; ++column) {
      EXPECT_EQ(layout.placement().size(static_cast<Device>(row * 3 + column)), rows[row] * columns[column]);
    }
  }
  // Process (1, 2) has rows 2, 3, 6, 7 and columns 4, 5.
  EXPECT_EQ(layout.placement().parts(5),
            (std::vector<Part>{{{{2, 4}, {4, 6}}, 0, {2, 1}}, {{{6, 4}, {8, 6}}, 4, {2, 1}}}));
}

TEST(Scalapack, first_processes_and_orders_of_ranks_are_taken_over) {
  const Descriptor other{1, 0, 10, 9, 3, 4, 1, 2, 7};
  EXPECT_EQ(to_string(layout_from_descriptor(other, {2, 3, MemoryOrder::column_major})),
            "[10 cyclic 3{row} from 1, 9 cyclic 4{column} from 2] on [0, 2, 4, 1, 3, 5]");
  EXPECT_EQ(memory_from_descriptor(other, 8).strides, (Strides{8, 56}));
}

TEST(Scalapack, descriptors_of_other_matrices_are_refused) {
  const auto refusal = [](std::size_t entry, int value) {
    Descriptor descriptor{1, 0, 9, 9, 2, 2, 0, 0, 5};
    descriptor[entry] = value;
    return test::diagnostic_of([&] { layout_from_descriptor(descriptor, {2, 3}); });
  };
  EXPECT_EQ(refusal(0, 501), "error: DTYPE_ of a matrix's descriptor is 501\nhint: 1 stands for a dense matrix\n");
  EXPECT_EQ(refusal(2, -1), "error: M_ of a matrix's descriptor is -1\nhint: a matrix has 0 rows or more\n");
  EXPECT_EQ(refusal(3, -1), "error: N_ of a matrix's descriptor is -1\nhint: a matrix has 0 columns or more\n");
  EXPECT_EQ(refusal(4, 0), "error: MB_ of a matrix's descriptor is 0\nhint: a block has a row at least\n");
  EXPECT_EQ(refusal(5, 0), "error: NB_ of a matrix's descriptor is 0\nhint: a block has a column at least\n");
  EXPECT_EQ(refusal(6, 2), "error: RSRC_ of a matrix's descriptor is 2\nhint: the grid has processes 0 to 1 there\n");
  EXPECT_EQ(refusal(7, -1), "error: CSRC_ of a matrix's descriptor is -1\nhint: the grid has processes 0 to 2 there\n");
  EXPECT_EQ(refusal(8, 0), "error: LLD_ of a matrix's descriptor is 0\nhint: columns are an element apart at least\n");
  const Descriptor guide{1, 0, 9, 9, 2, 2, 0, 0, 5};
  EXPECT_EQ(test::diagnostic_of([&] {
              layout_from_descriptor(guide, {-1, -1});
            }),
            "error: a grid of -1 x -1 processes\nhint: this process may be outside of the grid, where BLACS says -1\n");
}

}  // namespace
}  // namespace retile
