// Codecs as users name them.
#pragma once

#include <optional>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/files/codec.h"

namespace retile::files {

// "keep", "none", "zstd", "zstd:7", "blosc", "blosc:zstd:5", "lz4", "zlib:1", "gzip:5"; nothing for "keep". Throws
// InputError where there is no such codec or level, or retile was built without it.
std::optional<std::vector<Codec>> parse_codec(const SourceText& text);

}  // namespace retile::files
