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

// The scenes as an SVG document: all frames of each scene, or the two around a step (counted from 0) with the pieces of
// the device that receives the most.
std::string to_svg(const Comparison& scenes, std::optional<std::size_t> step);

// One frame, for a page with the styles of page.css.
std::string frame_svg(const Scene& scene, const SceneFrame& frame);

// Appends the formatted text.
template <typename... Arguments>
void put(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

// The text escaped for XML. Users' names may contain anything; control characters become spaces.
std::string escape(std::string_view text);

// A description of what a frame shows, for people who cannot see it: "[8{x}16], 64 bytes on each device. 0 4: [0:8];
// …".
std::string describe_frame(const Scene& scene, const SceneFrame& frame);

// Who made the plan: "retile, planner wide", or "XLA's rules".
std::string plan_name(const Scene& scene);

}  // namespace retile::drawing
