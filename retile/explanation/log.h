// The questions in a compiler's log: each redistribution that it warns of.
#pragma once

#include <optional>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/explanation/explanation.h"
#include "retile/interchange/notation.h"

namespace retile::explanation {

// How a log is read.
struct LogOptions {
  std::optional<interchange::PlacedMesh> mesh = {};  // for shardings that refer to one without saying it
  std::optional<interchange::ArrayText> array = {};  // of warnings that name none
  bool is_local_array = false;                       // `array` is what a device holds
  bool has_global_shapes = false;                    // shapes in warnings are whole arrays', not what a device holds
};

// Both are empty where the log has no warning.
struct LogQuestions {
  std::vector<Question> questions;  // doubles merged, largest arrays first
  std::vector<Diagnostic> faults;   // warnings that could not be read
};

LogQuestions read_log(const SourceText& log, const LogOptions& options = {});

}  // namespace retile::explanation
