// Small stores of Zarr and .npy files, written plainly, for tests that need no other program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/types/box.h"

namespace retile::test {

// An array of i4 whose elements are their row-major numbers.
struct CountedArray {
  Shape shape;
  Shape chunk;
};

// Without compression. `missing` chunks are left out; the fill value is -7.
void write_zarr3(const std::string& folder, const CountedArray& array, const std::vector<std::string>& missing = {});
void write_zarr2(const std::string& folder, const CountedArray& array, char order = 'C');

// The bytes of a chunk of it, with the fill value beyond the array.
std::string chunk_bytes(const CountedArray& array, const Shape& number, bool is_row_major = true);

void write_text(const std::string& path, const std::string& text);
std::string read_bytes(const std::string& path);

}  // namespace retile::test
