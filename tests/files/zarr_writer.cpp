#include "tests/files/zarr_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "retile/base/arithmetic.h"

namespace retile::test {
namespace {

void for_each_number(const Shape& counts, const std::function<void(const Shape&)>& visit) {
  Shape number(counts.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t dimension) {
    if (dimension == counts.size()) return visit(number);
    for (number[dimension] = 0; number[dimension] < counts[dimension]; ++number[dimension]) choose(dimension + 1);
    number[dimension] = 0;
  };
  choose(0);
}

void write_chunks(const std::string& folder, const CountedArray& array, const std::string& prefix,
                  const std::string& separator, const std::vector<std::string>& missing, bool is_row_major) {
  Shape counts;
  for (std::size_t i = 0; i < array.shape.size(); ++i) counts.push_back(divide_up(array.shape[i], array.chunk[i]));
  for_each_number(counts, [&](const Shape& number) {
    const std::string key = prefix + fmt::format("{}", fmt::join(number, separator));
    if (std::find(missing.begin(), missing.end(), key) != missing.end()) return;
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + key).parent_path());
    write_text(folder + "/" + key, chunk_bytes(array, number, is_row_major));
  });
}

}  // namespace

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string chunk_bytes(const CountedArray& array, const Shape& number, bool is_row_major) {
  std::string bytes;
  Shape extents = array.chunk;
  if (!is_row_major) std::reverse(extents.begin(), extents.end());
  for_each_number(extents, [&](Shape inside) {
    if (!is_row_major) std::reverse(inside.begin(), inside.end());
    std::int32_t value = 0;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      const std::int64_t at = number[i] * array.chunk[i] + inside[i];
      value = value * static_cast<std::int32_t>(array.shape[i]) + static_cast<std::int32_t>(at);
      if (at >= array.shape[i]) {
        value = -7;
        break;
      }
    }
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  });
  return bytes;
}

void write_zarr3(const std::string& folder, const CountedArray& array, const std::vector<std::string>& missing) {
  std::filesystem::create_directories(folder);
  write_chunks(folder, array, "c/", "/", missing, true);
  write_text(folder + "/zarr.json",
             fmt::format(R"({{"zarr_format": 3, "node_type": "array", "shape": [{}], "data_type": "int32",
 "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{}]}}}},
 "chunk_key_encoding": {{"name": "default", "configuration": {{"separator": "/"}}}},
 "fill_value": -7, "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}],
 "attributes": {{"unit": "m"}}, "dimension_names": [{}]}}
)",
                         fmt::join(array.shape, ", "), fmt::join(array.chunk, ", "),
                         array.shape.size() == 2 ? R"("y", "x")" : R"("t", "y", "x")"));
}

void write_zarr2(const std::string& folder, const CountedArray& array, char order) {
  std::filesystem::create_directories(folder);
  write_chunks(folder, array, "", ".", {}, order == 'C');
  write_text(folder + "/.zattrs", "{\"_ARRAY_DIMENSIONS\": [\"y\", \"x\"], \"missing\": NaN}\n");
  write_text(folder + "/.zarray",
             fmt::format(R"({{"zarr_format": 2, "shape": [{}], "chunks": [{}], "dtype": "<i4", "fill_value": -7,
 "order": "{}", "filters": null, "compressor": null}}
)",
                         fmt::join(array.shape, ", "), fmt::join(array.chunk, ", "), order));
}

}  // namespace retile::test
