// The element types that problems and programs name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace retile {

enum class ElementType {
  boolean,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f8e4m3fn,
  f8e5m2,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
};

enum class NumberKind { boolean, signed_integer, unsigned_integer, floating, complex };

// The names of all element types, for messages, and of those whose parts can be combined.
constexpr std::string_view element_type_names =
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64 c64 c128";
constexpr std::string_view combined_element_type_names = "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128";

const char* name_of(ElementType type);
// The type's name in NumPy with ml_dtypes, PyTorch and JAX, such as "float32".
const char* numpy_name_of(ElementType type);
std::int64_t bytes_of(ElementType type);
NumberKind kind_of(ElementType type);

// Whether it is a floating-point type of two bytes: sums of those are taken in single precision.
constexpr bool is_half(ElementType type) { return type == ElementType::f16 || type == ElementType::bf16; }
constexpr bool is_complex(ElementType type) { return type == ElementType::c64 || type == ElementType::c128; }
// Whether sums, maxima and minima of the type can be taken. Every type can be moved.
constexpr bool can_be_combined(ElementType type) {
  return type != ElementType::boolean && type != ElementType::f8e4m3fn && type != ElementType::f8e5m2;
}

std::optional<ElementType> find_element_type(std::string_view name);
std::optional<ElementType> find_numpy_type(std::string_view numpy_name);

}  // namespace retile
