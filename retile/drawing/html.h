// Scenes as a page of their own: page.css and page.js inside, nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "retile/drawing/scene.h"

namespace retile::drawing {

// Comparisons under each other. Without scripts, and on paper, all frames are there under each other.
std::string to_html(const std::vector<Comparison>& comparisons);

}  // namespace retile::drawing
