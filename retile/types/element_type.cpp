#include "retile/types/element_type.h"

#include <array>

namespace retile {
namespace {

struct Entry {
  ElementType type;
  const char* name;
  std::int64_t bytes;
};

// In the order of the enumeration.
constexpr std::array<Entry, 8> entries{{{ElementType::i8, "i8", 1},
                                        {ElementType::f16, "f16", 2},
                                        {ElementType::bf16, "bf16", 2},
                                        {ElementType::i32, "i32", 4},
                                        {ElementType::f32, "f32", 4},
                                        {ElementType::f64, "f64", 8},
                                        {ElementType::c64, "c64", 8},
                                        {ElementType::c128, "c128", 16}}};

}  // namespace

const char* name_of(ElementType type) { return entries[static_cast<std::size_t>(type)].name; }

std::int64_t bytes_of(ElementType type) { return entries[static_cast<std::size_t>(type)].bytes; }

std::optional<ElementType> find_element_type(std::string_view name) {
  for (const Entry& entry : entries) {
    if (name == entry.name) return entry.type;
  }
  return std::nullopt;
}

}  // namespace retile
