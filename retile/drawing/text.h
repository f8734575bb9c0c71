// Scenes as text for terminals.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "retile/base/palette.h"
#include "retile/drawing/scene.h"

namespace retile::drawing {

// All frames, or the two around a step (counted from 0). Boxes show their devices' numbers, and colours if the palette
// has them. Where there are more boxes than characters, neighbours share a cell.
std::string to_text(const Scene& scene, const Palette& palette, std::optional<std::size_t> step);

}  // namespace retile::drawing
