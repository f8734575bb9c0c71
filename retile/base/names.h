// The names of an enumeration's values, which count from 0.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "retile/base/list.h"

namespace retile {

template <typename Value, std::size_t count>
struct Names {
  std::array<const char*, count> names;  // in the order of the values

  constexpr const char* of(Value value) const { return at(names, value); }

  constexpr std::optional<Value> find(std::string_view name) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (name == names[i]) return static_cast<Value>(i);
    }
    return std::nullopt;
  }
};

}  // namespace retile
