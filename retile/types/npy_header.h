// The header of NumPy's .npy files, versions 1 to 3, which describes the bytes after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "retile/types/distributed_type.h"

namespace retile {

// Reads as many bytes as the span has, from this place in a file.
using ReadBytes = std::function<void(std::int64_t offset, std::span<std::byte> out)>;

struct NpyDescription {
  std::string type;              // NumPy's name, such as "<f4"; "[" where the elements are records
  bool fortran_order = false;    // the first dimension varies fastest
  Shape shape;                   // dimensions may be 0
  std::int64_t data_offset = 0;  // bytes

  bool operator==(const NpyDescription&) const = default;
};

// Reads the header of a file of this name and size in bytes. Throws InputError where it is no .npy file.
NpyDescription read_npy_description(const std::string& name, std::int64_t size, const ReadBytes& read);

// Throws InputError unless elements of this size fill the file behind the header.
void require_npy_data(const NpyDescription& description, std::int64_t element_size, const std::string& name,
                      std::int64_t size);

// The header of a row-major file of version 1: its bytes up to the data.
std::string npy_header_text(const std::string& type, const Shape& shape);

}  // namespace retile
