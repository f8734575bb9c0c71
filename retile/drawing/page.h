// The texts of page.css and page.js, which the build puts into the library.
#pragma once

#include <string_view>

namespace retile::drawing {

extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace retile::drawing
