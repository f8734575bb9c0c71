// Failures of a run that belong to a place in the program.
#pragma once

#include <string>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

namespace retile::runtime {

// With the place, the line and a caret, as diagnostics are printed.
inline RuntimeError failure_at(const SourceText& source, SourceRange range, std::string message,
                               std::string hint = {}) {
  std::string text = to_string(diagnose(source, range, std::move(message), std::move(hint)));
  while (text.ends_with('\n')) text.pop_back();
  return RuntimeError(text);
}

}  // namespace retile::runtime
