// What a failed run says.
#pragma once

#include <string>

#include "retile/base/error.h"

namespace retile::test {

// What the action's RuntimeError says; "" where it throws none.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "";
}

}  // namespace retile::test
