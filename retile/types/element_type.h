// The element types that problems and programs name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace retile {

enum class ElementType { i8, f16, bf16, i32, f32, f64, c64, c128 };

// "i8 f16 bf16 i32 f32 f64 c64 c128", for messages.
constexpr std::string_view element_type_names = "i8 f16 bf16 i32 f32 f64 c64 c128";

const char* name_of(ElementType type);
std::int64_t bytes_of(ElementType type);
// Of two bytes, added up in single precision.
constexpr bool is_half(ElementType type) { return type == ElementType::f16 || type == ElementType::bf16; }
std::optional<ElementType> find_element_type(std::string_view name);

}  // namespace retile
