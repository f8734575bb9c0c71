// What fuzzers have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "retile/base/diagnostic.h"

namespace retile::fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string() : std::string(reinterpret_cast<const char*>(data), size);
}

// Checked in every build.
inline void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::abort();
}

// What the parser makes of the text; nothing where it finds the text at fault, and can say so.
template <typename Parse>
auto try_parse(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const InputError& error) {
    require(!to_string(error.diagnostic()).empty(), "a diagnostic has words");
    return std::nullopt;
  }
}

}  // namespace retile::fuzz
