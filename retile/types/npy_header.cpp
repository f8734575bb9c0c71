#include "retile/types/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/utf8.h"

namespace retile {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::int64_t most_header_bytes = 1 << 16;  // NumPy writes about a hundred
constexpr std::size_t data_alignment = 64;

[[noreturn]] void fail(const std::string& name, const std::string& message, std::string hint = {}) {
  throw InputError(fmt::format("{}: {}", name, message), std::move(hint));
}

// --- The header: a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.

class HeaderParser {
 public:
  HeaderParser(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  NpyDescription parse() {
    NpyDescription header;
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !std::exchange(has_type, true)) {
        header.type = type();
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        header.shape = shape();
      } else {
        fail(name_, fmt::format("its header has '{}' twice, or where it has no meaning", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ < text_.size()) fail_here("the end of the header");
    if (!has_type || !has_order || !has_shape) {
      fail(name_, "its header lacks 'descr', 'fortran_order' or 'shape'");
    }
    return header;
  }

 private:
  void skip_space() {
    while (position_ < text_.size() && std::strchr(" \t\r\n", text_[position_]) != nullptr) ++position_;
  }

  bool accept(char symbol) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != symbol) return false;
    ++position_;
    return true;
  }

  void expect(char symbol) {
    if (!accept(symbol)) fail_here(fmt::format("'{}'", symbol));
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  std::string string() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) fail_here("the end of a string");
    std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) fail_here("True or False");
    return false;
  }

  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) fail_here("a size");
    position_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  Shape shape() {
    Shape sizes;
    expect('(');
    while (!accept(')')) {
      sizes.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string type() {
    skip_space();
    if (text_.substr(position_, 1) != "[") return string();
    int depth = 0;  // of nested brackets; strings in the list contain none
    do {
      if (position_ == text_.size()) fail_here("the end of a list");
      depth += text_[position_] == '[' ? 1 : text_[position_] == ']' ? -1 : 0;
      ++position_;
    } while (depth > 0);
    return "[";
  }

  [[noreturn]] void fail_here(const std::string& expected) const {
    fail(name_, fmt::format("its header is no .npy header: expected {} at '{}'", expected,
                            printable(text_.substr(position_, 12))));
  }

  const std::string& name_;
  std::string_view text_;
  std::size_t position_ = 0;
};

std::int64_t little_endian(std::span<const std::byte> bytes) {
  std::int64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::int64_t>(bytes[i]);
  return value;
}

}  // namespace

NpyDescription read_npy_description(const std::string& name, std::int64_t size, const ReadBytes& read) {
  std::byte start[12]{};
  const std::int64_t shortest = 10;  // magic, version, length of the header
  if (size < shortest) fail(name, "it is too short to be a .npy file");
  read(0, std::span(start).first(static_cast<std::size_t>(shortest)));
  if (std::memcmp(start, magic.data(), magic.size()) != 0) fail(name, "it is no .npy file");
  const int version = std::to_integer<int>(start[6]);
  if (version < 1 || version > 3) fail(name, fmt::format("it is a .npy file of version {}; 1 to 3 are known", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::int64_t header_begin = 8 + static_cast<std::int64_t>(length_bytes);
  if (size < header_begin) fail(name, "it is too short to be a .npy file");
  read(8, std::span(start).subspan(8, length_bytes));
  const std::int64_t length = little_endian(std::span(start).subspan(8, length_bytes));
  if (length > most_header_bytes || length > size - header_begin) {
    fail(name, fmt::format("its header claims to have {} bytes", length));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  read(header_begin, std::as_writable_bytes(std::span(text)));
  NpyDescription header = HeaderParser(name, text).parse();
  header.data_offset = header_begin + length;
  return header;
}

void require_npy_data(const NpyDescription& description, std::int64_t element_size, const std::string& name,
                      std::int64_t size) {
  const Shape& shape = description.shape;
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  const auto elements = is_empty ? 0 : checked_product(shape);
  const auto bytes = elements ? checked_multiply(*elements, element_size) : std::nullopt;
  if (bytes && *bytes == size - description.data_offset) return;
  fail(name, fmt::format("its header promises {} bytes of data, and there are {}",
                         bytes ? fmt::format("{}", *bytes) : "more than 2^63", size - description.data_offset));
}

std::string npy_header_text(const std::string& type, const Shape& shape) {
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                       fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t before = magic.size() + 4;  // version 1.0 and the length, two bytes each
  const std::size_t total = (before + dictionary.size() + data_alignment) / data_alignment * data_alignment;
  dictionary.append(total - before - dictionary.size() - 1, ' ');
  dictionary.push_back('\n');
  const std::size_t length = dictionary.size();
  const char prefix[] = {1, 0, static_cast<char>(length & 0xFFU), static_cast<char>(length >> 8U)};
  return std::string(magic) + std::string(prefix, sizeof prefix) + dictionary;
}

}  // namespace retile
