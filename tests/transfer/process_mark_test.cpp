#include "retile/transfer/process_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace retile::transfer {
namespace {

TEST(ProcessMark, is_found_by_those_that_may_read) {
  const ProcessMark own = own_process_mark();
  EXPECT_EQ(own.process, getpid());
  EXPECT_TRUE(can_read(own));
  const pid_t child = fork();
  if (child == 0) _exit(can_read(own) ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "a system that forbids it";
}

TEST(ProcessMark, of_another_system_process_or_cookie_is_not_read) {
  const auto with = [](auto change) {
    ProcessMark mark = own_process_mark();
    change(mark);
    return mark;
  };
  EXPECT_FALSE(can_read(with([](ProcessMark& mark) { mark.system = ""; })));
  EXPECT_FALSE(can_read(with([](ProcessMark& mark) { mark.system += "x"; })));
  EXPECT_FALSE(can_read(with([](ProcessMark& mark) { mark.process = INT32_MAX; })));
  EXPECT_FALSE(can_read(with([](ProcessMark& mark) { ++mark.cookie; })));
  EXPECT_FALSE(can_read(with([](ProcessMark& mark) { mark.address = 8; })));
}

}  // namespace
}  // namespace retile::transfer
