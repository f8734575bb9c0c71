#include "retile/files/zarr_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/files/file.h"
#include "retile/files/python_json.h"

namespace retile::files {

namespace fs = std::filesystem;

DimensionOrder row_major(std::size_t rank) {
  DimensionOrder order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

DimensionOrder column_major(std::size_t rank) {
  DimensionOrder order = row_major(rank);
  std::reverse(order.begin(), order.end());
  return order;
}

// --- Reading.

Shape read_shape(const JsonReader& reader) {
  Shape shape;
  for (const JsonReader& element : reader.elements()) shape.push_back(element.count());
  return shape;
}

Shape read_chunk(const JsonReader& reader, std::size_t rank) {
  Shape chunk;
  for (const JsonReader& element : reader.elements()) chunk.push_back(element.size());
  if (chunk.size() != rank)
    reader.fail(fmt::format("{} has {} sizes for {} dimensions", reader.name(), chunk.size(), rank));
  return chunk;
}

std::int64_t integer_or(const JsonReader& reader, const char* key, std::int64_t otherwise) {
  return reader.has(key) ? reader.member(key).integer() : otherwise;
}

bool is_null(const JsonReader& reader) { return reader.value().as<std::nullptr_t>() != nullptr; }

int clamped(std::int64_t number) { return static_cast<int>(std::clamp<std::int64_t>(number, -(1 << 30), 1 << 30)); }

void add_codec(const JsonReader& place, const Codec& codec, std::vector<Codec>& chain) {
  chain.push_back(codec);
  const std::string fault = fault_of(chain);
  if (!fault.empty()) place.fail(fault);
}

void require_sizes(const StoredArray& array, const JsonReader& place) {
  const auto bytes_of = [&](const Shape& shape) {
    const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    const auto elements = is_empty ? 0 : checked_product(shape);
    return elements ? checked_multiply(*elements, array.element.bytes) : std::nullopt;
  };
  Shape stored = array.file_shape();
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::int64_t files = divide_up(array.shape[i], stored[i]);
    stored[i] = checked_multiply(std::max<std::int64_t>(1, files), stored[i]).value_or(INT64_MAX);
  }
  if (!bytes_of(stored)) place.fail("the array's bytes do not fit in 63 bits");
  constexpr std::int64_t index_bytes = 64;  // of a chunk in an index and its copies
  if (!checked_multiply(product(array.chunks_per_shard()), index_bytes))
    place.fail("the index of a shard does not fit in 63 bits");
  for (const Codec& codec : array.codecs) {
    if (array.chunk_bytes() > most_chunk_bytes(codec.kind))
      place.fail(fmt::format("chunks of {} bytes are more than {} encodes", array.chunk_bytes(), name_of(codec.kind)));
  }
}

// --- Writing.

Json attributes_of(const StoredArray& source) {
  if (source.format == Format::zarr3 || source.format == Format::hdf5) {
    const Json metadata = Json::parse(source.metadata);
    return metadata.value("attributes", Json::object());
  }
  const std::string path = source.path + "/.zattrs";
  if (source.format == Format::npy || !fs::exists(path)) return Json::object();
  Json attributes = Json::parse(hide_words(read_text(path)), nullptr, false);
  if (attributes.is_discarded() || !attributes.is_object()) {
    throw InputError(fmt::format("cannot read '{}': it is no JSON object", path), {});
  }
  return attributes;
}

Json fill_of(const StoredArray& source) {
  if (source.format == Format::npy) return zero_of(source.element);
  return Json::parse(source.metadata).value("fill_value", Json());
}

Json zero_of(const ElementKind& element) {
  if (element.numpy.empty()) return 0;
  switch (element.numpy[0]) {
    case 'b':
      return false;
    case 'c':
      return Json::array({0.0, 0.0});
    case 'S':
    case 'U':
    case 'V':
      return "";
    default:
      return 0;
  }
}

}  // namespace retile::files
