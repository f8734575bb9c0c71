// What a user would read.
#pragma once

#include <string>

#include "retile/base/diagnostic.h"

namespace retile::test {

// The diagnostic that the action ends with, as it is printed; "no error" where it succeeds.
template <typename Action>
std::string diagnostic_of(Action action) {
  try {
    (void)action();
  } catch (const InputError& error) {
    return to_string(error.diagnostic());
  }
  return "no error";
}

}  // namespace retile::test
