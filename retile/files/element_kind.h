// Element types as files name them. What elements mean matters for fill values alone: bytes are moved as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/json.h"

namespace retile::files {

struct ElementKind {
  std::string numpy;       // NumPy's word for it without the byte order, such as "f4"; empty where it has none
  std::int64_t bytes = 1;  // of an element
  bool big_endian = false;

  bool operator==(const ElementKind&) const = default;
};

// "<f4", "|b1", ">c16", "<M8[ns]", "<U7". Nothing where NumPy has no such type, or it is one of records or objects,
// or its elements are larger than half a mebibyte.
std::optional<ElementKind> parse_numpy_type(std::string_view text);
// With the byte order in front.
std::string numpy_type(const ElementKind& kind);

// The name in Zarr v3, such as "float32"; nothing where it has none.
std::optional<std::string> zarr3_name(const ElementKind& kind);
// "data_type" of Zarr v3. Throws InputError where it is not known.
ElementKind read_zarr3_type(const JsonReader& reader);

// The bytes of one element with this "fill_value" of Zarr; null is zero. Nothing where it cannot be told.
std::optional<std::vector<std::byte>> read_fill_value(const JsonReader& reader, const ElementKind& kind);

}  // namespace retile::files
