// Colours of devices: light ones on which black text is legible, distinct for colour-blind readers too.
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

// A device's colour. Up to eight devices have a colour each. More are divided into eight runs of neighbours; a run
// shares a colour, in shades from dark to light.
Color color_of(Device device, std::int64_t devices);

// A text such as "#77aadd".
std::string to_hex(const Color& color);

}  // namespace retile::drawing
