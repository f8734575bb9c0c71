// Plans of `retile rechunk` as pictures: the chunks of an array before, between and after the passes, and the regions
// that passes fill at once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/box.h"

namespace retile::drawing {

// The array as stored before or after a pass.
struct RechunkStage {
  std::string name;
  Shape chunk;
  Shape region;         // that the pass writing it fills at once; empty for the source
  Shape read;           // extents that the first region of the next pass reads; empty for the target
  std::string reading;  // what the next pass does, in words; empty for the target
};

struct RechunkScene {
  Shape shape;
  std::vector<RechunkStage> stages;
  std::vector<std::size_t> dimensions;  // drawn as rows and columns; or only one
  std::string summary;
};

// Whether the text is a line of `retile rechunk --dry-run --json`, judged by its keys.
bool is_rechunk_plan(const SourceText& line);

// Makes a scene from such a line. Throws InputError.
RechunkScene make_rechunk_scene(const SourceText& line);

// The scene as an SVG document.
std::string to_svg(const RechunkScene& scene);
// A page with all scenes.
std::string to_html(const std::vector<RechunkScene>& scenes);

}  // namespace retile::drawing
