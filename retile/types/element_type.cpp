#include "retile/types/element_type.h"

#include "retile/base/list.h"
#include "retile/base/names.h"

namespace retile {
namespace {

constexpr Names<ElementType, 8> names{{"i8", "f16", "bf16", "i32", "f32", "f64", "c64", "c128"}};
constexpr std::int64_t bytes[] = {1, 2, 2, 4, 4, 8, 8, 16};

}  // namespace

const char* name_of(ElementType type) { return names.of(type); }

std::int64_t bytes_of(ElementType type) { return at(bytes, type); }

std::optional<ElementType> find_element_type(std::string_view name) { return names.find(name); }

}  // namespace retile
