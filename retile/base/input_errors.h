// Several things that are wrong with the user's input, told in one go.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "retile/base/diagnostic.h"

namespace retile {

// Several diagnostics; seen as an InputError, the first of them.
class InputErrors : public InputError {
 public:
  // At least one diagnostic.
  explicit InputErrors(std::vector<Diagnostic> diagnostics)
      : InputError(diagnostics.front()), diagnostics_(std::move(diagnostics)) {}
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// Faults of the parts of an input. All parts are checked, also after one is found at fault. A fault that
// several parts have in common is there once.
class InputFaults {
 public:
  void add(Diagnostic fault) {
    if (seen_.emplace(fault.line, fault.range.begin, fault.range.end, fault.message).second) {
      faults_.push_back(std::move(fault));
    }
  }

  // Whether the action went through; what it throws is added.
  template <typename Action>
  bool attempt(const Action& action) {
    try {
      action();
      return true;
    } catch (const InputErrors& errors) {
      for (const Diagnostic& fault : errors.diagnostics()) add(fault);
    } catch (const InputError& error) {
      add(error.diagnostic());
    }
    return false;
  }

  const std::vector<Diagnostic>& faults() const { return faults_; }
  // Throws InputErrors where there are some.
  void require_none() const {
    if (!faults_.empty()) throw InputErrors(faults_);
  }

 private:
  std::vector<Diagnostic> faults_;
  std::set<std::tuple<int, std::size_t, std::size_t, std::string>> seen_;
};

}  // namespace retile
