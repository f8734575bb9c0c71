// Arrays in files of HDF5, which those of NetCDF-4 are: read, not written. The library of HDF5 says where chunks lie;
// their bytes are read from the file as those of other formats are, by any number of threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/files/stored_array.h"

namespace retile::files {

// A file of HDF5, and the path of a group or an array in it: "" is its root.
struct Hdf5Path {
  std::string file;
  std::string inside;
};

// "data.nc" or "data.nc/ocean/salt", where data.nc is a file of HDF5. Nothing where it is not.
std::optional<Hdf5Path> find_hdf5(const std::string& path);

// Names of the arrays below a group, from its path, in their order; "" alone where the path is that of an array.
// Dimensions of NetCDF without a variable are left out. Throws InputError where there are none.
std::vector<std::string> hdf5_arrays(const Hdf5Path& path);

// Throws InputError with the name of what retile does not know.
StoredArray open_hdf5(const Hdf5Path& path);

// A group with its attributes, a JSON object as the metadata of arrays has it.
struct Hdf5Group {
  std::string name;  // from the path
  std::string attributes;
};
// The outermost first. None where the path is that of an array.
std::vector<Hdf5Group> hdf5_groups(const Hdf5Path& path);

}  // namespace retile::files
