// Several things that are wrong with the user's input, told in one go.
#pragma once

#include <utility>
#include <vector>

#include "retile/base/diagnostic.h"

namespace retile {

// As an InputError, the first of them.
class InputErrors : public InputError {
 public:
  // At least one diagnostic.
  explicit InputErrors(std::vector<Diagnostic> diagnostics)
      : InputError(diagnostics.front()), diagnostics_(std::move(diagnostics)) {}
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace retile
