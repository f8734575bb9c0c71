#include "retile/types/element_type.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace retile {
namespace {

std::vector<ElementType> all_types() {
  std::vector<ElementType> types;
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i) types.push_back(static_cast<ElementType>(i));
  return types;
}

// The first number in its name, in bits; a bool is a byte.
TEST(ElementType, has_the_bytes_that_its_name_says) {
  for (const ElementType type : all_types()) {
    const std::string name = name_of(type);
    const std::size_t digit = name.find_first_of("0123456789");
    EXPECT_EQ(8 * bytes_of(type), digit == std::string::npos ? 8 : std::stoi(name.substr(digit))) << name;
  }
}

TEST(ElementType, has_the_kind_that_its_names_say) {
  for (const ElementType type : all_types()) {
    const std::string numpy_name = numpy_name_of(type);
    const NumberKind kind = numpy_name == "bool"                ? NumberKind::boolean
                            : numpy_name.starts_with("int")     ? NumberKind::signed_integer
                            : numpy_name.starts_with("uint")    ? NumberKind::unsigned_integer
                            : numpy_name.starts_with("complex") ? NumberKind::complex
                                                                : NumberKind::floating;
    EXPECT_EQ(kind_of(type), kind) << numpy_name;
    EXPECT_EQ(is_complex(type), kind == NumberKind::complex);
  }
}

TEST(ElementType, is_found_by_its_name) {
  std::string names;
  std::string combined;
  for (const ElementType type : all_types()) {
    EXPECT_EQ(find_element_type(name_of(type)), type);
    EXPECT_EQ(find_numpy_type(numpy_name_of(type)), type);
    names += (names.empty() ? "" : " ") + std::string(name_of(type));
    if (can_be_combined(type)) combined += (combined.empty() ? "" : " ") + std::string(name_of(type));
  }
  EXPECT_EQ(names, element_type_names);
  EXPECT_EQ(combined, combined_element_type_names);
}

TEST(ElementType, is_not_found_by_other_names) {
  for (const char* name : {"", "F32", "f", "f3", "f32 ", "float32"}) {
    EXPECT_EQ(find_element_type(name), std::nullopt) << name;
    EXPECT_EQ(find_numpy_type(std::string(name) + "f32"), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace retile
