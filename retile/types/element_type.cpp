#include "retile/types/element_type.h"

#include <algorithm>
#include <iterator>

#include "retile/base/list.h"

namespace retile {
namespace {

struct Traits {
  const char* name;
  const char* numpy_name;
  std::int64_t bytes;
  NumberKind kind;
};

// The traits of each type, in the order of ElementType's values.
constexpr Traits table[] = {
    {"bool", "bool", 1, NumberKind::boolean},           {"i8", "int8", 1, NumberKind::signed_integer},
    {"i16", "int16", 2, NumberKind::signed_integer},    {"i32", "int32", 4, NumberKind::signed_integer},
    {"i64", "int64", 8, NumberKind::signed_integer},    {"u8", "uint8", 1, NumberKind::unsigned_integer},
    {"u16", "uint16", 2, NumberKind::unsigned_integer}, {"u32", "uint32", 4, NumberKind::unsigned_integer},
    {"u64", "uint64", 8, NumberKind::unsigned_integer}, {"f8e4m3fn", "float8_e4m3fn", 1, NumberKind::floating},
    {"f8e5m2", "float8_e5m2", 1, NumberKind::floating}, {"f16", "float16", 2, NumberKind::floating},
    {"bf16", "bfloat16", 2, NumberKind::floating},      {"f32", "float32", 4, NumberKind::floating},
    {"f64", "float64", 8, NumberKind::floating},        {"c64", "complex64", 8, NumberKind::complex},
    {"c128", "complex128", 16, NumberKind::complex},
};

std::optional<ElementType> find_named(std::string_view name, const char* Traits::*member) {
  const auto* const found =
      std::find_if(std::begin(table), std::end(table), [&](const Traits& type) { return type.*member == name; });
  if (found == std::end(table)) return std::nullopt;
  return static_cast<ElementType>(found - std::begin(table));
}

}  // namespace

const char* name_of(ElementType type) { return at(table, type).name; }

const char* numpy_name_of(ElementType type) { return at(table, type).numpy_name; }

std::int64_t bytes_of(ElementType type) { return at(table, type).bytes; }

NumberKind kind_of(ElementType type) { return at(table, type).kind; }

std::optional<ElementType> find_element_type(std::string_view name) { return find_named(name, &Traits::name); }

std::optional<ElementType> find_numpy_type(std::string_view numpy_name) {
  return find_named(numpy_name, &Traits::numpy_name);
}

}  // namespace retile
