// The texts of page.css, picture.js and page.js, which the build puts into the library.
#pragma once

#include <string_view>

namespace retile::drawing {

extern const std::string_view page_style;
extern const std::string_view picture_script;
extern const std::string_view page_script;

}  // namespace retile::drawing
