#include "retile/files/element_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace retile::files {
namespace {

struct NamedType {
  const char* zarr3;
  const char* numpy;  // empty where NumPy has none
  std::int64_t bytes;
};

constexpr NamedType named_types[] = {
    {"bool", "b1", 1},      {"int8", "i1", 1},      {"int16", "i2", 2},        {"int32", "i4", 4},
    {"int64", "i8", 8},     {"uint8", "u1", 1},     {"uint16", "u2", 2},       {"uint32", "u4", 4},
    {"uint64", "u8", 8},    {"float16", "f2", 2},   {"float32", "f4", 4},      {"float64", "f8", 8},
    {"complex64", "c8", 8}, {"bfloat16", "", 2},    {"complex128", "c16", 16}, {"numpy.datetime64", "", 8},
    {"float8_e4m3", "", 1}, {"float8_e5m2", "", 1}, {"float8_e4m3fn", "", 1},  {"numpy.timedelta64", "", 8},
};

using FillBytes = std::vector<std::byte>;

constexpr std::int64_t most_element_bytes = 1 << 19;

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 1 || size > most_element_bytes) {
    return std::nullopt;
  }
  return size;
}

// The lowest bytes of a word, in the order of the kind; zeros beyond its eight.
FillBytes bytes_of_word(std::uint64_t word, std::int64_t size, bool big_endian) {
  FillBytes bytes;
  for (std::int64_t i = 0; i < size; ++i, word >>= 8U) bytes.push_back(static_cast<std::byte>(word & 0xFFU));
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

// Half precision, where it has the value exactly.
std::optional<std::uint64_t> half_bits(double value) {
  const std::uint64_t sign = std::signbit(value) ? 0x8000U : 0;
  if (std::isnan(value)) return sign | 0x7E00U;
  if (std::isinf(value)) return sign | 0x7C00U;
  if (value == 0) return sign;
  int exponent = 0;
  const double mantissa = std::frexp(std::fabs(value), &exponent) * 2048;  // 11 bits
  if (mantissa != std::floor(mantissa) || exponent < -13 || exponent > 16) return std::nullopt;
  return sign | static_cast<std::uint64_t>(exponent + 14) << 10U | (static_cast<std::uint64_t>(mantissa) & 0x3FFU);
}

std::optional<std::uint64_t> float_bits(double value, std::int64_t bytes) {
  if (bytes == 8) return std::bit_cast<std::uint64_t>(value);
  if (bytes == 4) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return bytes == 2 ? half_bits(value) : std::nullopt;
}

std::optional<double> read_number(const JsonReader& reader) {
  if (const auto* integer = reader.value().as<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* number = reader.value().as<double>()) return *number;
  const auto* text = reader.value().as<std::string>();
  if (text == nullptr) return std::nullopt;
  if (*text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (*text == "Infinity") return std::numeric_limits<double>::infinity();
  if (*text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Integers of 64 bits without a sign are beyond what JSON values hold.
std::optional<std::uint64_t> read_integer(const JsonReader& reader) {
  const SourceRange range = reader.value().range();
  const std::string_view text = std::string_view(reader.source().text).substr(range.begin, range.end - range.begin);
  std::int64_t with_sign = 0;
  std::uint64_t without = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, with_sign).ptr == end) return static_cast<std::uint64_t>(with_sign);
  if (std::from_chars(text.data(), end, without).ptr == end) return without;
  return std::nullopt;
}

// "0x7fc00000".
std::optional<std::uint64_t> read_bits(const JsonReader& reader) {
  const auto* text = reader.value().as<std::string>();
  if (text == nullptr || !text->starts_with("0x")) return std::nullopt;
  std::uint64_t bits = 0;
  const char* end = text->data() + text->size();
  if (std::from_chars(text->data() + 2, end, bits, 16).ptr != end) return std::nullopt;
  return bits;
}

std::optional<FillBytes> read_float(const JsonReader& reader, std::int64_t bytes, bool big_endian) {
  auto bits = read_bits(reader);
  const auto number = read_number(reader);
  if (!bits && number) bits = float_bits(*number, bytes);
  if (!bits) return std::nullopt;
  return bytes_of_word(*bits, bytes, big_endian);
}

std::optional<FillBytes> read_complex(const JsonReader& reader, const ElementKind& kind) {
  FillBytes bytes;
  const bool has_parts = reader.value().as<JsonArray>() != nullptr && reader.elements().size() == 2;
  if (!has_parts) return std::nullopt;
  for (const JsonReader& part : reader.elements()) {
    const auto half = read_float(part, kind.bytes / 2, kind.big_endian);
    if (!half) return std::nullopt;
    bytes.insert(bytes.end(), half->begin(), half->end());
  }
  return bytes;
}

}  // namespace

std::optional<ElementKind> parse_numpy_type(std::string_view text) {
  if (text.size() < 3 || std::strchr("<>|", text[0]) == nullptr) return std::nullopt;
  const std::size_t unit = std::min(text.find('['), text.size());
  const auto size = parse_size(text.substr(2, unit - 2));
  if (!size || std::strchr("biufcmMSUV", text[1]) == nullptr) return std::nullopt;
  const std::int64_t bytes = text[1] == 'U' ? 4 * *size : *size;
  if (bytes > most_element_bytes) return std::nullopt;
  return ElementKind{std::string(text.substr(1)), bytes, text[0] == '>'};
}

std::string numpy_type(const ElementKind& kind) {
  const bool has_order = kind.bytes > 1 && kind.numpy[0] != 'S' && kind.numpy[0] != 'V';
  return (has_order ? kind.big_endian ? ">" : "<" : "|") + kind.numpy;
}

std::optional<std::string> zarr3_name(const ElementKind& kind) {
  for (const NamedType& type : named_types) {
    if (kind.numpy == type.numpy && !kind.numpy.empty()) return type.zarr3;
  }
  return std::nullopt;
}

ElementKind read_zarr3_type(const JsonReader& reader) {
  const bool is_object = reader.value().as<JsonObject>() != nullptr;
  const JsonReader named = is_object ? reader.member("name") : reader;
  const std::string& name = named.string();
  for (const NamedType& type : named_types) {
    if (name == type.zarr3) return {type.numpy, type.bytes, false};
  }
  if (is_object && reader.has("configuration") && reader.member("configuration").has("length_bytes")) {
    const JsonReader length = reader.member("configuration").member("length_bytes");
    if (length.size() > most_element_bytes)
      length.fail(fmt::format("elements of more than {} bytes are not supported", most_element_bytes));
    return {"", length.size(), false};
  }
  const auto bits = name.starts_with("r") ? parse_size(std::string_view(name).substr(1)) : std::nullopt;
  if (bits && *bits % 8 == 0) return {"", *bits / 8, false};
  named.fail(fmt::format("elements of type '{}' are not known", name));
}

std::optional<FillBytes> read_fill_value(const JsonReader& reader, const ElementKind& kind) {
  const FillBytes zero(static_cast<std::size_t>(kind.bytes));
  if (reader.value().as<std::nullptr_t>() != nullptr) return zero;
  const auto* text = reader.value().as<std::string>();
  if (text != nullptr && text->empty()) return zero;
  const char letter = kind.numpy.empty() ? ' ' : kind.numpy[0];
  constexpr std::uint64_t no_time = std::uint64_t{1} << 63U;
  if (text != nullptr && *text == "NaT" && kind.bytes == 8) return bytes_of_word(no_time, 8, kind.big_endian);
  if (const bool* truth = reader.value().as<bool>()) return bytes_of_word(*truth ? 1 : 0, kind.bytes, kind.big_endian);
  if (letter == 'f') return read_float(reader, kind.bytes, kind.big_endian);
  if (letter == 'c') return read_complex(reader, kind);
  const auto integer = text == nullptr ? read_integer(reader) : std::nullopt;
  const bool is_integer = letter != ' ' && std::strchr("biumM", letter) != nullptr;
  if (integer && (is_integer || *integer == 0)) return bytes_of_word(*integer, kind.bytes, kind.big_endian);
  return std::nullopt;
}

}  // namespace retile::files
