// Colours of devices: light ones that black text stands on, told apart in colour-blind vision too.
#pragma once

#include <cstdint>
#include <string>

#include "retile/types/mesh.h"

namespace retile::drawing {

struct Color {
  int red = 0;
  int green = 0;
  int blue = 0;

  bool operator==(const Color&) const = default;
};

// Up to eight devices have a colour each. Of more, eight runs of neighbours have one, in shades from dark to light.
Color color_of(Device device, std::int64_t devices);

// "#77aadd".
std::string to_hex(const Color& color);

}  // namespace retile::drawing
