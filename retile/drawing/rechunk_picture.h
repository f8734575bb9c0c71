// Plans of `retile rechunk` as pictures: the chunks of an array before, between and after the passes, and the regions
// that are filled at once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/box.h"

namespace retile::drawing {

// The array as it is stored before or after a pass.
struct RechunkStage {
  std::string name;
  Shape chunk;
  Shape region;         // of the pass that writes it; empty for the source
  Shape read;           // extents of what the first region of the next pass reads; empty for the target
  std::string reading;  // what that pass does; empty for the target
};

struct RechunkScene {
  Shape shape;
  std::vector<RechunkStage> stages;
  std::vector<std::size_t> dimensions;  // that are drawn: rows and columns, or one alone
  std::string summary;
};

// Whether the text is a line of `retile rechunk --dry-run --json`, as far as its keys say.
bool is_rechunk_plan(const SourceText& line);

// Throws InputError.
RechunkScene make_rechunk_scene(const SourceText& line);

// A document of its own.
std::string to_svg(const RechunkScene& scene);
// A page with all of them.
std::string to_html(const std::vector<RechunkScene>& scenes);

}  // namespace retile::drawing
