// Scenes as SVG.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/drawing/scene.h"

namespace retile::drawing {

// A document of its own: all frames of each scene, or the two around a step (counted from 0) and what the device gets
// that gets the most.
std::string to_svg(const Comparison& scenes, std::optional<std::size_t> step);

// One frame, for a page that has the styles of page.css.
std::string frame_svg(const Scene& scene, const SceneFrame& frame);

// Appends what is formatted.
template <typename... Arguments>
void put(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

// The text as XML has it. Users' names hold anything; control characters become spaces.
std::string escape(std::string_view text);

// "[8{x}16], 64 bytes on each device. 0 4: [0:8]; …": what a frame shows, for those who do not see it.
std::string describe_frame(const Scene& scene, const SceneFrame& frame);

// "wide" is ours, "xla" XLA's.
std::string plan_name(const Scene& scene);

}  // namespace retile::drawing
