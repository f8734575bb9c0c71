// The metadata of arrays of Zarr v3.
#pragma once

#include <string>

#include "retile/files/stored_array.h"

namespace retile::files {

// Throws InputError with the place of what is not known.
StoredArray open_zarr3(const std::string& folder);

// The text of the target's `zarr.json`. Throws InputError where Zarr v3 lacks one of its codecs.
std::string write_zarr3(const StoredArray& source, const StoredArray& target);

}  // namespace retile::files
