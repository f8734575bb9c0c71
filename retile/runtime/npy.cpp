#include "retile/runtime/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/utf8.h"
#include "retile/memory/buffer.h"
#include "retile/runtime/strided.h"

namespace retile::runtime {
namespace {

constexpr std::size_t window_bytes = 1 << 16;

[[noreturn]] void fail(const std::string& name, const std::string& message, std::string hint = {}) {
  throw InputError(fmt::format("{}: {}", name, message), std::move(hint));
}

// --- Files.

struct CloseFile {
  void operator()(const int* file) const {
    ::close(*file);
    delete file;
  }
};

std::shared_ptr<int> own_file(int file) { return {new int(file), CloseFile()}; }

struct OpenFile {
  std::int64_t size = 0;
  ReadBytes read;
};

OpenFile open_for_reading(const std::string& path) {
  // Opening does not wait for a pipe's other end: pipes are refused.
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) throw InputError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)), {});
  const std::shared_ptr<int> file = own_file(number);
  struct stat status {};
  if (::fstat(*file, &status) != 0 || !S_ISREG(status.st_mode)) {
    throw InputError(fmt::format("cannot read '{}': it is no plain file", path), {});
  }
  const auto read = [file, path](std::int64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t count = ::pread(*file, out.data(), out.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw RuntimeError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
      if (count == 0) throw RuntimeError(fmt::format("'{}' became shorter while it was read", path));
      out = out.subspan(static_cast<std::size_t>(count));
      offset += count;
    }
  };
  return {status.st_size, read};
}

// Elements times their size; nothing where that does not fit in 63 bits.
std::optional<std::int64_t> data_bytes(const NpyHeader& header) {
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) return 0;
  const auto elements = checked_product(header.shape);
  return elements ? checked_multiply(*elements, bytes_of(header.element)) : std::nullopt;
}

NpyHeader read_header(const std::string& name, std::int64_t size, const ReadBytes& read) {
  const NpyDescription description = read_npy_description(name, size, read);
  const std::string& type = description.type;
  if (type == "[") fail(name, "it holds records; retile reads arrays of f4, f8 and i4");
  const std::string_view kind = std::string_view(type).substr(std::min<std::size_t>(1, type.size()));
  const bool known = kind == "f4" || kind == "f8" || kind == "i4";
  if (!known || (type[0] != '<' && type[0] != '>')) {
    fail(name, fmt::format("it holds elements of type '{}'; retile reads f4, f8 and i4", printable(type)),
         "convert the array before it is saved, as in array.astype('f4')");
  }
  const ElementType element = kind == "f4" ? ElementType::f32 : kind == "f8" ? ElementType::f64 : ElementType::i32;
  require_npy_data(description, bytes_of(element), name, size);
  return {element, (type[0] == '<') != (std::endian::native == std::endian::little), description.fortran_order,
          description.shape, description.data_offset};
}

// --- Data.

// A part of the file in memory: rows that lie close to each other are read together. Goes forward only.
class Window {
 public:
  Window(const ReadBytes& read, std::int64_t end) : read_(read), end_(end), buffer_(window_bytes) {}

  void copy(std::int64_t offset, std::size_t count, std::byte* out) {
    while (count > 0) {
      if (offset >= begin_ + length_) fill(offset);
      const std::int64_t skipped = offset - begin_;
      const std::size_t part = std::min(count, static_cast<std::size_t>(length_ - skipped));
      std::memcpy(out, buffer_.data() + skipped, part);
      offset += static_cast<std::int64_t>(part);
      out += part;
      count -= part;
    }
  }

 private:
  void fill(std::int64_t offset) {
    begin_ = offset;
    length_ = std::min<std::int64_t>(end_ - offset, window_bytes);
    read_(begin_, std::span(buffer_.data(), static_cast<std::size_t>(length_)));
  }

  const ReadBytes& read_;
  std::int64_t end_;
  Buffer buffer_;
  std::int64_t begin_ = 0;
  std::int64_t length_ = 0;
};

Shape reversed(const Shape& shape) { return {shape.rbegin(), shape.rend()}; }

void swap_bytes(std::byte* elements, std::int64_t count, std::int64_t size) {
  for (std::int64_t i = 0; i < count; ++i) std::reverse(elements + i * size, elements + (i + 1) * size);
}

StridedView view_of(const Shape& shape, const Box& box) { return with_long_rows(sliced(shape, box.lo, box.hi)); }

}  // namespace

// --- Reading.

NpyReader::NpyReader(const std::string& path)
    : NpyReader([&] {
        OpenFile file = open_for_reading(path);
        return NpyReader(path, file.size, std::move(file.read));
      }()) {}

NpyReader::NpyReader(std::string name, std::int64_t size, ReadBytes read)
    : name_(std::move(name)), read_(std::move(read)), header_(read_header(name_, size, read_)) {}

void NpyReader::read_rows(const Shape& shape, const Box& box, std::byte* out) const {
  const std::int64_t size = bytes_of(header_.element);
  Window window(read_, header_.data_offset + *data_bytes(header_));
  const StridedView rows = view_of(shape, box);
  const auto bytes = static_cast<std::size_t>(row_length(rows) * size);
  for_each_row(rows, [&](std::int64_t start) {
    window.copy(header_.data_offset + start * size, bytes, out);
    out += bytes;
  });
}

void NpyReader::read_box(const Box& box, std::byte* out) const {
  const std::int64_t size = bytes_of(header_.element);
  const std::int64_t count = volume(box);
  if (!header_.fortran_order) {
    read_rows(header_.shape, box, out);
  } else {
    // Row-major with the dimensions in reverse.
    const Box turned{reversed(box.lo), reversed(box.hi)};
    Buffer elements(static_cast<std::size_t>(count * size));
    read_rows(reversed(header_.shape), turned, elements.data());
    const Shape order = reversed(numbers_below<std::int64_t>(turned.lo.size()));
    copy_from_view(transposed(extent_of(turned), order), elements.data(), out, size);
  }
  if (header_.other_byte_order) swap_bytes(out, count, size);
}

// --- Writing.

std::string npy_header_text(ElementType element, const Shape& shape) {
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  const char* kind = element == ElementType::f32 ? "f4" : element == ElementType::f64 ? "f8" : "i4";
  return retile::npy_header_text(fmt::format("{}{}", order, kind), shape);
}

NpyWriter::NpyWriter(const std::string& path, ElementType element, const Shape& shape, Mode mode,
                     const std::string& place)
    : path_(path), element_(element), shape_(shape) {
  const std::string header = npy_header_text(element, shape);
  data_offset_ = static_cast<std::int64_t>(header.size());
  const int flags = O_WRONLY | O_CLOEXEC | (mode == Mode::create ? O_CREAT | O_TRUNC : 0);
  const int file = ::open((place.empty() ? path : place).c_str(), flags, 0666);
  if (file < 0) throw RuntimeError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  file_ = own_file(file);
  if (mode == Mode::create) write(0, std::as_bytes(std::span(header)));
}

void NpyWriter::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(*file_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw RuntimeError(fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void NpyWriter::write_box(const Box& box, const std::byte* elements) const {
  const std::int64_t size = bytes_of(element_);
  const StridedView rows = view_of(shape_, box);
  const auto bytes = static_cast<std::size_t>(row_length(rows) * size);
  for_each_row(rows, [&](std::int64_t start) {
    write(data_offset_ + start * size, {elements, bytes});
    elements += bytes;
  });
}

}  // namespace retile::runtime
