// Compilers' logs: the reshards that they warn of.
//
//   [SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {…} to {…} efficiently for HLO
//   operation %x = f32[1024,64]{1,0} parameter(0), …
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/interchange/notation.h"

namespace retile::interchange {

struct ReportedReshard {
  std::string from;
  std::string to;
  std::optional<ArrayText> array;  // as it is printed: what a device holds; nothing where the warning has none
  std::string operation;           // of the first of them; empty where the warning has none
  std::int64_t count = 1;          // equal warnings
  SourceRange from_place;          // of the first, in the log
  SourceRange to_place;
};

struct CompilerLog {
  std::vector<ReportedReshard> reshards;  // doubles merged, in order of the first ones
  std::vector<Diagnostic> faults;         // warnings that could not be read
};

bool has_warning(std::string_view text);
CompilerLog read_compiler_log(const SourceText& log);

// Parses the texts of a reshard, with faults at their places in the log; the shape is that of the array, or of a tile.
LocalEnds parse_reshard(const SourceText& log, const ReportedReshard& reshard, const Shape& shape, bool is_local,
                        const std::optional<PlacedMesh>& mesh);

}  // namespace retile::interchange
