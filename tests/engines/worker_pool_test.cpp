#include "retile/engines/threads/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "retile/base/error.h"

namespace retile {
namespace {

TEST(WorkerPool, does_every_task_once) {
  for (const int workers : {1, 2, 3, 8}) {
    WorkerPool pool(workers);
    EXPECT_EQ(pool.workers(), workers);
    for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
      std::vector<std::atomic<int>> done(count);
      pool.for_each(count, [&](std::size_t i) { ++done[i]; });
      EXPECT_THAT(done, ::testing::Each(::testing::Eq(1))) << workers << " workers";
    }
  }
}

// What tasks wrote is seen by the caller, job after job.
TEST(WorkerPool, hands_over_what_tasks_wrote) {
  WorkerPool pool(3);
  std::vector<int> values(64);
  for (int round = 1; round <= 2000; ++round) {
    pool.for_each(values.size(), [&](std::size_t i) { ++values[i]; });
    ASSERT_THAT(values, ::testing::Each(round));
  }
}

// Tasks that wait for each other finish only where workers really share them.
TEST(WorkerPool, works_at_the_same_time) {
  WorkerPool pool(4);
  std::atomic<int> arrived = 0;
  pool.for_each(4, [&](std::size_t) {
    ++arrived;
    while (arrived < 4) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 4);
}

TEST(WorkerPool, wakes_workers_that_sleep) {
  WorkerPool pool(2);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> arrived = 0;
    pool.for_each(2, [&](std::size_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  }
}

TEST(WorkerPool, throws_what_a_task_threw) {
  for (const int workers : {1, 2, 4}) {
    WorkerPool pool(workers);
    for (const std::size_t culprit : {std::size_t{0}, std::size_t{50}, std::size_t{99}}) {
      std::atomic<int> done = 0;
      const auto task = [&](std::size_t i) {
        if (i == culprit) throw RuntimeError("task " + std::to_string(i));
        ++done;
      };
      try {
        pool.for_each(100, task);
        FAIL();
      } catch (const RuntimeError& error) {
        EXPECT_EQ(error.what(), "task " + std::to_string(culprit));
      }
      EXPECT_LE(done, 99);
      EXPECT_GE(done, static_cast<int>(culprit)) << "tasks before it had begun";
    }
    std::atomic<int> done = 0;
    pool.for_each(10, [&](std::size_t) { ++done; });
    EXPECT_EQ(done, 10) << "the pool serves on";
  }
}

TEST(WorkerPool, throws_one_of_many_exceptions) {
  WorkerPool pool(4);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(pool.for_each(100, [](std::size_t) { throw std::out_of_range("each"); }), std::out_of_range);
  }
}

TEST(WorkerPool, lets_callers_wait_for_each_other) {
  WorkerPool pool(2);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        pool.for_each(8, [&](std::size_t) {
          const int now = ++inside;
          if (now > most) most = now;
          --inside;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_LE(most, 2);
}

TEST(WorkerPool, needs_a_worker) { EXPECT_THROW(WorkerPool(0), InternalError); }

}  // namespace
}  // namespace retile
