// How a step is written, in plans, sequence files and programs alike:
//
//   step   ::= name [ '(' change { ',' change } ')' ]
//   change ::= dimension [ '->' dimension ] [ ';' amount ]     an alltoall has two dimensions
//   amount ::= factor | part { ',' part }                      how many times, or along which axes
//
// Older spellings are read too: ':' for ';', and ',' for '->'.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/scanner.h"
#include "retile/types/mesh.h"

namespace retile {

struct StepChange {
  int from = 0;
  int to = 0;                    // the same, but of an alltoall
  std::int64_t factor = 0;       // 0 where it is not written
  std::vector<AxisPart> axes{};  // minor to major; none where they are not written
  SourceRange from_place{};
  SourceRange to_place{};
};

// A factor each.
std::vector<StepChange> scan_changes(Scanner& scanner, std::string_view name);
// A factor, axes of the mesh, or, of an alltoall or a gather, neither.
std::vector<StepChange> scan_changes(Scanner& scanner, std::string_view name, const Mesh& mesh);

// "alltoall(0 -> 1; 2, 2 -> 3; 4)"; the name alone without changes.
std::string step_text(std::string_view name, std::span<const StepChange> changes);
// "alltoall(0 -> 1; x,y)".
std::string step_text(std::string_view name, std::span<const StepChange> changes, const Mesh& mesh);

}  // namespace retile
