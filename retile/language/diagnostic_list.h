// The faults of a program that the checker finds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/language/parser.h"

namespace retile::language {

class DiagnosticList {
 public:
  // The source must outlive the list.
  explicit DiagnosticList(const SourceText& source) : source_(source) {}

  // Adds a fault. Beyond most_diagnostics, faults are only counted.
  void add(SourceRange place, const Fault& fault) {
    if (++count_ <= most_diagnostics) list_.push_back(diagnose(source_, place, fault));
  }
  void add(SourceRange place, std::string message, std::string hint = {}) {
    add(place, Fault{std::move(message), std::move(hint)});
  }

  // Adds a note to the last fault.
  void note(SourceRange place, std::string message) {
    if (count_ <= most_diagnostics) list_.back().notes.push_back(diagnose(source_, place, std::move(message)));
  }

  bool empty() const { return count_ == 0; }
  std::vector<Diagnostic> take() { return std::move(list_); }

 private:
  const SourceText& source_;
  std::vector<Diagnostic> list_;
  std::size_t count_ = 0;
};

}  // namespace retile::language
