// Stores of Zarr: the arrays and groups in a folder, and the metadata of the same store in other chunks.
#pragma once

#include <string>
#include <vector>

#include "retile/files/rechunk.h"

namespace retile::files {

// A store, a group or an array of Zarr, a .npy file, or a file of HDF5, perhaps with a path in it behind its own.
// Throws InputError where there are no arrays, or some that retile does not read.
StoreContents open_store(const std::string& path);

// All metadata of the target: of its arrays, and of the source's groups with their attributes and what they
// consolidate.
std::vector<MetadataFile> target_metadata(const std::string& source, const std::vector<StoreContents::Group>& groups,
                                          const std::vector<ArrayJob>& arrays);

}  // namespace retile::files
