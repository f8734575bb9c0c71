// NumPy's .npy files, versions 1 to 3: arrays of f32, f64 and i32 in either byte order and either element order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "retile/types/box.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/npy_header.h"

namespace retile::runtime {

struct NpyHeader {
  ElementType element = ElementType::f32;
  bool other_byte_order = false;  // than this machine's
  bool fortran_order = false;     // the first dimension varies fastest
  Shape shape;                    // dimensions may be 0
  std::int64_t data_offset = 0;   // bytes

  bool operator==(const NpyHeader&) const = default;
};

using retile::ReadBytes;

// Reads boxes of the array only: a file may be larger than memory.
class NpyReader {
 public:
  // Opens a file. Throws InputError where it cannot be read or is no .npy file of these kinds.
  explicit NpyReader(const std::string& path);
  // Bytes come from `read`. `name` is for diagnostics; `size` is their number.
  NpyReader(std::string name, std::int64_t size, ReadBytes read);

  const NpyHeader& header() const { return header_; }

  // The box's elements, row-major, in this machine's byte order. The box lies in the array.
  void read_box(const Box& box, std::byte* out) const;

 private:
  void read_rows(const Shape& shape, const Box& box, std::byte* out) const;

  std::string name_;
  ReadBytes read_;
  NpyHeader header_;
};

// Writes an array box by box, in row-major order and this machine's byte order. All throw RuntimeError.
class NpyWriter {
 public:
  enum class Mode { create, open };  // open: another process has created it

  // `place`: where the bytes go until the file has its name; empty: to the path.
  NpyWriter(const std::string& path, ElementType element, const Shape& shape, Mode mode, const std::string& place = {});

  void write_box(const Box& box, const std::byte* elements) const;

 private:
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;

  std::string path_;
  ElementType element_;
  Shape shape_;
  std::int64_t data_offset_ = 0;
  std::shared_ptr<int> file_;
};

// The first bytes of a file, up to its data.
std::string npy_header_text(ElementType element, const Shape& shape);

}  // namespace retile::runtime
