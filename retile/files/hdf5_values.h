// Values of the library of HDF5 as ours: types of elements, attributes, names of dimensions and fill values. Only for
// files that are compiled with that library.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "retile/files/element_kind.h"
#include "retile/types/box.h"

namespace retile::files {

// An object of the library, which is closed with it. Below 0: the library has failed.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle(hid_t number, Close close) : number_(number), close_(close) {}
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  Hdf5Handle(Hdf5Handle&& other) noexcept : number_(std::exchange(other.number_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&&) = delete;
  ~Hdf5Handle() {
    if (number_ >= 0) close_(number_);
  }
  hid_t get() const { return number_; }
  bool is_there() const { return number_ >= 0; }

 private:
  hid_t number_;
  Close close_;
};

// The path of a group or an array in its file.
std::string path_of(const Hdf5Handle& object);

Shape shape_of_space(hid_t space);

// The type of an array's elements; nothing where there is none like it, which `class_name` then names.
std::optional<ElementKind> kind_of(hid_t type);
const char* class_name(hid_t type);

// The attributes of a group or an array, as the metadata of stores has them: a JSON object.
std::string read_attributes(const Hdf5Handle& object);
// The names of the arrays that stand for an array's dimensions; empty where there are none.
std::vector<std::string> dimension_names(const Hdf5Handle& array, std::size_t rank);
// Whether it stands for a dimension of NetCDF that no variable goes with.
bool is_bare_dimension(const Hdf5Handle& array);

// The value of elements that were never written, as bytes, and as a fill value of Zarr in JSON: null where Zarr has no
// form for it.
std::vector<std::byte> read_fill(hid_t properties, hid_t type, std::int64_t bytes);
std::string fill_json(const ElementKind& kind, const std::vector<std::byte>& bytes);
// The value that NetCDF takes for missing, in JSON, as xarray writes it into attributes of Zarr v3: integers as they
// are, other numbers as the bytes of a double. null where there is none.
std::string missing_value(const Hdf5Handle& array, const ElementKind& kind);

}  // namespace retile::files
