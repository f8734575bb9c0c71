#include "retile/types/element_type.h"

#include <gtest/gtest.h>

#include <string>

namespace retile {
namespace {

TEST(ElementType, has_the_bytes_that_its_name_says) {
  EXPECT_EQ(bytes_of(ElementType::i8), 1);
  EXPECT_EQ(bytes_of(ElementType::f16), 2);
  EXPECT_EQ(bytes_of(ElementType::bf16), 2);
  EXPECT_EQ(bytes_of(ElementType::i32), 4);
  EXPECT_EQ(bytes_of(ElementType::f32), 4);
  EXPECT_EQ(bytes_of(ElementType::f64), 8);
  EXPECT_EQ(bytes_of(ElementType::c64), 8);
  EXPECT_EQ(bytes_of(ElementType::c128), 16);
}

TEST(ElementType, is_found_by_its_name) {
  std::string names;
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(find_element_type(name_of(type)), type);
    names += (names.empty() ? "" : " ") + std::string(name_of(type));
  }
  EXPECT_EQ(names, element_type_names);
}

TEST(ElementType, is_not_found_by_other_names) {
  for (const char* name : {"", "F32", "f", "f3", "f32 ", "float32"}) {
    EXPECT_EQ(find_element_type(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace retile
