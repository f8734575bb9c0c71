#include "retile/planner/memory_limit.h"

#include <gtest/gtest.h>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"

namespace retile::test {
namespace {

Problem problem_of_16_elements() {
  const Mesh mesh = parse_mesh("x=4");
  return {"p", parse_type("[2{x}8, 8]", mesh), parse_type("[8, 2{x}8]", mesh), ElementType::f64};
}

std::int64_t elements(const std::string& text) {
  return elements_of(parse_memory_limit({"limit", text}), problem_of_16_elements());
}

TEST(MemoryLimit, CountsElements) {
  EXPECT_EQ(elements("0"), 0);
  EXPECT_EQ(elements("4096"), 4096);
  EXPECT_EQ(elements("9223372036854775807"), INT64_MAX);
}

TEST(MemoryLimit, CountsBytesOfTheProblemsElements) {
  EXPECT_EQ(elements("80B"), 10);
  EXPECT_EQ(elements("87B"), 10);
  EXPECT_EQ(elements("8KB"), 1000);
  EXPECT_EQ(elements("8KiB"), 1024);
  EXPECT_EQ(elements("1.5MiB"), 3 * 65536);
  EXPECT_EQ(elements("2GB"), 250'000'000);
  EXPECT_EQ(elements("1GiB"), std::int64_t{1} << 27U);
  EXPECT_EQ(elements("1TB"), 125'000'000'000);
  EXPECT_EQ(elements("1TiB"), std::int64_t{1} << 37U);
}

TEST(MemoryLimit, MultipliesTheLargerTile) {
  EXPECT_EQ(elements("1x"), 16);
  EXPECT_EQ(elements("1.5x"), 24);
  EXPECT_EQ(elements("0.99x"), 15);
  EXPECT_EQ(elements("99999999999999999999x"), INT64_MAX);
}

TEST(MemoryLimit, RefusesWhatItCannotRead) {
  const auto message = [](const std::string& text) {
    return diagnostic_of([&] { parse_memory_limit({"limit", text}); });
  };
  EXPECT_EQ(message("3kib"),
            "limit:1:1: error: unknown unit of memory 'kib'\n"
            "    1 | 3kib\n"
            "      | ^~~~\n"
            "hint: write elements (4096), bytes (512MiB, 1.5GB) or a factor of the larger tile (1.5x)\n");
  for (const char* text : {"", "1.5", "9223372036854775808", "-1"}) {
    EXPECT_NE(message(text).find("error: "), std::string::npos) << text;
  }
  EXPECT_NE(message("x").find("must be a number before the x"), std::string::npos);
  EXPECT_NE(message("1.2.3x").find("must be a number before the x"), std::string::npos);
  EXPECT_NE(message("9999999999TiB").find("must be a number below 2^63"), std::string::npos);
}

}  // namespace
}  // namespace retile::test
