#include "retile/planner/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/nearest_name.h"

namespace retile {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Unit, 10> units{{{"", 1},
                                      {"B", 1},
                                      {"KB", 1000},
                                      {"MB", 1000'000},
                                      {"GB", 1000'000'000},
                                      {"TB", 1000'000'000'000},
                                      {"KiB", std::int64_t{1} << 10U},
                                      {"MiB", std::int64_t{1} << 20U},
                                      {"GiB", std::int64_t{1} << 30U},
                                      {"TiB", std::int64_t{1} << 40U}}};

std::optional<std::int64_t> parse_whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Parses a count of bytes, perhaps with a fraction: 1.5GiB.
std::optional<std::int64_t> parse_bytes(std::string_view number, const Unit& unit) {
  if (const auto whole = parse_whole(number)) return checked_multiply(*whole, unit.bytes);
  const auto decimal = parse_decimal(number);
  if (!decimal) return std::nullopt;
  const double bytes = std::floor(*decimal * static_cast<double>(unit.bytes));
  if (bytes >= 9e18) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

// The number that the text begins with, and what follows.
struct MemoryText {
  std::string_view number;
  std::string_view unit;
};

MemoryText split(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  return {text.substr(0, digits), text.substr(digits)};
}

// Parses a count of bytes with its unit. Throws InputError with a hint that ends in `or_else`.
std::int64_t parse_bytes(const SourceText& source, const std::string& or_else) {
  const MemoryText text = split(source.text);
  const auto fail = [&](std::string message, const std::string& hint = {}) -> InputError {
    return InputError(diagnose(source, {0, source.text.size()}, std::move(message),
                               fmt::format("{}write bytes (4096, 512MiB, 1.5GB){}", hint, or_else)));
  };
  if (source.text.empty()) throw fail("a size of memory is missing");
  if (source.text.starts_with('-')) throw fail("a size of memory cannot be negative");
  if (text.number.empty()) throw fail("a size of memory begins with a number");
  std::vector<std::string> names;
  for (const Unit& known : units) {
    if (known.name != text.unit) {
      names.emplace_back(known.name);
    } else if (const auto bytes = parse_bytes(text.number, known)) {
      return *bytes;
    } else {
      throw fail("a size of memory must be a number below 2^63 before its unit");
    }
  }
  const auto meant = nearest_name(text.unit, names);
  throw fail(fmt::format("unknown unit of memory '{}'", text.unit),
             meant ? fmt::format("did you mean {}? ", *meant) : "");
}

}  // namespace

std::int64_t parse_byte_count(const SourceText& source) {
  if (split(source.text).unit != "x") return parse_bytes(source, "");
  throw InputError(diagnose(source, {0, source.text.size()}, "a number of bytes is needed here, not a factor",
                            "write 4096, 512MiB, 1.5GB"));
}

MemoryLimit parse_memory_limit(const SourceText& source) {
  const MemoryText text = split(source.text);
  if (text.unit != "x") return MemoryBytes{parse_bytes(source, " or a factor of the larger tile (2.5x)")};
  if (const auto factor = parse_decimal(text.number)) return MemoryFactor{*factor};
  throw InputError(diagnose(source, {0, source.text.size()}, "a factor must be a number before the x",
                            "write a factor of the larger tile (2.5x) or bytes (4096, 512MiB, 1.5GB)"));
}

std::int64_t bytes_of(const MemoryLimit& limit, const Problem& problem) {
  if (const auto* bytes = std::get_if<MemoryBytes>(&limit)) return bytes->bytes;
  const std::int64_t larger = std::max(problem.source().local_size(), problem.target().local_size());
  const long double bytes = static_cast<long double>(larger) *
                            static_cast<long double>(retile::bytes_of(problem.element_type())) *
                            std::get<MemoryFactor>(limit).factor;
  const auto most = static_cast<long double>(std::numeric_limits<std::int64_t>::max());
  return bytes >= most ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(bytes);
}

}  // namespace retile
