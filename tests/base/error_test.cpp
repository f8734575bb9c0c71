#include "retile/base/error.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "retile/base/diagnostic.h"

namespace retile {
namespace {

TEST(Ensure, passes_what_holds) { EXPECT_NO_THROW(ensure(true, "two is even")); }

TEST(Ensure, throws_what_does_not_hold_by_name) {
  try {
    ensure(false, "two is odd");
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "broken invariant: two is odd");
  }
}

// Whoever catches one kind must not get another: each has its own exit status.
TEST(Errors, are_three_unrelated_kinds) {
  EXPECT_FALSE((std::is_base_of_v<RuntimeError, InputError> || std::is_base_of_v<InputError, RuntimeError>));
  EXPECT_FALSE((std::is_base_of_v<RuntimeError, InternalError> || std::is_base_of_v<InternalError, RuntimeError>));
  EXPECT_FALSE((std::is_base_of_v<InputError, InternalError> || std::is_base_of_v<InternalError, InputError>));
}

}  // namespace
}  // namespace retile
