#include "retile/files/zarr_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/files/file.h"
#include "retile/files/python_json.h"

namespace retile::files {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

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
  const std::string fault = size_fault_of(array);
  if (!fault.empty()) place.fail(fault);
}

// --- Writing.

std::string attributes_text(const StoredArray& array) {
  if (array.format == Format::zarr3 || array.format == Format::hdf5) {
    return Json::parse(array.metadata).value("attributes", Json::object()).dump();
  }
  const std::string path = array.path + "/.zattrs";
  if (array.format == Format::npy || !fs::exists(path)) return "{}";
  const Json attributes = Json::parse(hide_words(read_text(path)), nullptr, false);
  if (attributes.is_discarded() || !attributes.is_object()) {
    throw InputError(fmt::format("cannot read '{}': it is no JSON object", path), {});
  }
  return attributes.dump();
}

std::string fill_text(const StoredArray& source) {
  if (source.format == Format::npy) return zero_text(source.element);
  return Json::parse(source.metadata).value("fill_value", Json()).dump();
}

std::string zero_text(const ElementKind& element) {
  const char letter = element.numpy.empty() ? ' ' : element.numpy[0];
  if (letter == 'b') return "false";
  if (letter == 'c') return "[0.0, 0.0]";
  return letter == 'S' || letter == 'U' || letter == 'V' ? R"("")" : "0";
}

}  // namespace retile::files
