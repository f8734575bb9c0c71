// The reshards that compilers warn of in their logs.
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
  std::optional<ArrayText> array;  // as printed: what a device holds; nothing where the warning has none
  std::string operation;           // the first warning's; empty where it has none
  std::int64_t count = 1;          // number of equal warnings
  SourceRange from_place;          // in the log, of the first warning
  SourceRange to_place;
};

struct CompilerLog {
  std::vector<ReportedReshard> reshards;  // equal ones merged, in order of the first
  std::vector<Diagnostic> faults;         // warnings that could not be read
};

bool has_warning(std::string_view text);
CompilerLog read_compiler_log(const SourceText& log);

// Parses the layouts of a reshard, with faults at their places in the log. `shape` is that of the array, or of a tile
// where `is_local` is set.
LocalEnds parse_reshard(const SourceText& log, const ReportedReshard& reshard, const Shape& shape, bool is_local,
                        const std::optional<PlacedMesh>& mesh);

}  // namespace retile::interchange
