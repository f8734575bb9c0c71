// Stores of Zarr: the arrays and groups in a folder, and the metadata of the same store in other chunks.
#pragma once

#include <string>
#include <vector>

#include "retile/files/rechunk.h"

namespace retile::files {

// Names of the arrays below a group, from its folder, in their order. Throws InputError where there are none.
std::vector<std::string> arrays_of_group(const std::string& folder);

// All metadata of the target: of its arrays, and of groups with their attributes and what they consolidate.
std::vector<MetadataFile> target_metadata(const std::string& source, const std::vector<ArrayJob>& arrays);

}  // namespace retile::files
