// Chunk sizes as users write them, by position or by dimension.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/files/stored_array.h"

namespace retile::files {

// "8760,10,10", or "time=8760,lat=10"; -1 is the whole dimension.
struct ChunkSizes {
  SourceText text;
  std::vector<std::string> names;  // empty: by position
  std::vector<std::int64_t> sizes;
  std::vector<SourceRange> ranges;  // of the entries in the text
};

// Throws InputError with the place of the mistake.
ChunkSizes parse_chunk_sizes(const SourceText& text);

// Whether they say anything of this array.
bool fits(const ChunkSizes& chunks, const StoredArray& array);
// The array's chunks with these sizes, none larger than the array.
Shape chunk_shape(const ChunkSizes& chunks, const StoredArray& array);
// Throws InputError where they fit none of the arrays, or name a dimension that none has.
void require_fit(const ChunkSizes& chunks, const std::vector<StoreContents::NamedArray>& arrays);

}  // namespace retile::files
