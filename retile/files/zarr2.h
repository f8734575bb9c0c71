// The metadata of arrays of Zarr v2.
#pragma once

#include <string>

#include "retile/files/stored_array.h"

namespace retile::files {

// Throws InputError with the place of what is not known.
StoredArray open_zarr2(const std::string& folder);

// The text of the target's `.zarray`. Throws InputError where Zarr v2 lacks one of its codecs.
std::string write_zarr2(const StoredArray& source, const StoredArray& target);

}  // namespace retile::files
