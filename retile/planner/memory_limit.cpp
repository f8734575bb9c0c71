#include "retile/planner/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "retile/base/arithmetic.h"

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

// A count of bytes may have a fraction: 1.5GiB.
std::optional<std::int64_t> parse_bytes(std::string_view number, const Unit& unit) {
  if (const auto whole = parse_whole(number)) return checked_multiply(*whole, unit.bytes);
  const auto decimal = parse_decimal(number);
  if (!decimal) return std::nullopt;
  const double bytes = std::floor(*decimal * static_cast<double>(unit.bytes));
  if (bytes >= 9e18) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

MemoryLimit parse_memory_limit(const SourceText& source) {
  const std::string_view text = source.text;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits);
  const std::string_view unit_name = text.substr(digits);
  const auto fail = [&](std::string message) -> InputError {
    return InputError(diagnose(source, {0, text.size()}, std::move(message),
                               "write bytes (4096, 512MiB, 1.5GB) or a factor of the larger tile (2.5x)"));
  };
  if (unit_name == "x") {
    if (const auto factor = parse_decimal(number)) return MemoryFactor{*factor};
    throw fail("a memory limit as a factor must be a number before the x");
  }
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& known) { return known.name == unit_name; });
  if (unit == units.end()) throw fail(fmt::format("unknown unit of memory '{}'", unit_name));
  if (const auto bytes = parse_bytes(number, *unit)) return MemoryBytes{*bytes};
  throw fail("a memory limit in bytes must be a number below 2^63 before its unit");
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
