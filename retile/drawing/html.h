// Scenes as a self-contained page: page.css and page.js are inside, and nothing is loaded.
#pragma once

#include <string>
#include <vector>

#include "retile/drawing/scene.h"

namespace retile::drawing {

// Comparisons below each other. Without scripts, and on paper, all frames are shown below each other.
std::string to_html(const std::vector<Comparison>& comparisons);

}  // namespace retile::drawing
