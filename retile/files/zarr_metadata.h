// Metadata that both versions of Zarr have in common.
#pragma once

#include <cstdint>
#include <string>

#include "retile/base/json.h"
#include "retile/files/stored_array.h"

namespace retile::files {

// --- Reading. All throw InputError with the place of the mistake.

Shape read_shape(const JsonReader& reader);
Shape read_chunk(const JsonReader& reader, std::size_t rank);
std::int64_t integer_or(const JsonReader& reader, const char* key, std::int64_t otherwise);
bool is_null(const JsonReader& reader);
// A level or a mode of a codec, where those that are beyond an int are as wrong as the largest.
int clamped(std::int64_t number);

// Appends a codec to a chain, unless it or the chain is one that retile cannot use.
void add_codec(const JsonReader& place, const Codec& codec, std::vector<Codec>& chain);

// Refuses what size_fault_of() finds.
void require_sizes(const StoredArray& array, const JsonReader& place);

// --- Writing.

// The fill value of a source, as JSON: "null" where it has none. And the one that stands for none.
std::string fill_text(const StoredArray& source);
std::string zero_text(const ElementKind& element);

}  // namespace retile::files
