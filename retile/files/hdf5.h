// Arrays in files of HDF5, which those of NetCDF-4 are: read, not written. The library of HDF5 says where chunks lie;
// their bytes are read from the file as those of other formats are, by any number of threads.
#pragma once

#include <optional>
#include <string>

#include "retile/files/stored_array.h"

namespace retile::files {

// A file of HDF5, and the path of a group or an array in it: "" is its root.
struct Hdf5Path {
  std::string file;
  std::string inside;
};

// "data.nc" or "data.nc/ocean/salt", where data.nc is a file of HDF5. Nothing where it is not.
std::optional<Hdf5Path> find_hdf5(const std::string& path);

// The arrays at and below the path, and the groups with their attributes: none where the path is that of an array.
// Dimensions of NetCDF without a variable are left out. The file is opened once. Throws InputError where there are no
// arrays, or with the name of what retile does not know.
StoreContents open_hdf5(const Hdf5Path& path);

}  // namespace retile::files
