// The three kinds of failure that retile tells apart.
//
//   InputError     the user's input is at fault; carries a Diagnostic (diagnostic.h)
//   RuntimeError   an engine could not do its work, or a program failed at a place of it (ProgramFailure, diagnostic.h)
//   InternalError  a bug in retile; checked in every build
#pragma once

#include <stdexcept>
#include <string>

namespace retile {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class RuntimeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Checks an invariant of retile itself, in every build.
inline void ensure(bool condition, const char* invariant) {
  if (!condition) throw InternalError(std::string("broken invariant: ") + invariant);
}

}  // namespace retile
