#include "retile/drawing/colors.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "retile/base/arithmetic.h"

namespace retile::drawing {
namespace {

// Paul Tol's light scheme, made for labelled cells, in an order that keeps similar colours apart.
constexpr std::array<Color, 8> base{{{0x77, 0xaa, 0xdd},
                                     {0xee, 0x88, 0x66},
                                     {0x44, 0xbb, 0x99},
                                     {0xee, 0xdd, 0x88},
                                     {0xff, 0xaa, 0xbb},
                                     {0xaa, 0xaa, 0x22},
                                     {0x99, 0xdd, 0xff},
                                     {0xbb, 0xcc, 0x33}}};

Color mix(const Color& color, int other, double share) {
  const auto mixed = [&](int part) { return static_cast<int>(std::lround(part + (other - part) * share)); };
  return {mixed(color.red), mixed(color.green), mixed(color.blue)};
}

}  // namespace

Color color_of(Device device, std::int64_t devices) {
  constexpr auto count = static_cast<std::int64_t>(base.size());
  const std::int64_t run = divide_up(devices, count);
  const Color& color = at(base, device / run);
  if (run <= 1) return color;
  const double shade = 2.0 * static_cast<double>(device % run) / static_cast<double>(run - 1) - 1;  // -1 to 1
  return shade < 0 ? mix(color, 0, -0.2 * shade) : mix(color, 255, 0.55 * shade);
}

std::string to_hex(const Color& color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

}  // namespace retile::drawing
