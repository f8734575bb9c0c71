#include "retile/engines/processes.h"

#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "tests/support/split_engine.h"

namespace retile::test {
namespace {

// On 1, 2 and 5 processes.
void for_all_processes(const std::function<void(const Processes& processes)>& action) {
  for (const int count : {1, 2, 5}) {
    run_split(count, [&](int, Engine& engine) { action(engine.processes()); });
  }
}

TEST(Processes, one_process_agrees_with_itself) {
  const Processes& processes = one_process();
  EXPECT_EQ(processes.rank(), 0);
  EXPECT_EQ(processes.size(), 1);
  EXPECT_TRUE(processes.is_speaker());
  EXPECT_EQ(processes.least(5), 5);
  std::uint64_t number = 7;
  processes.add_up({&number, 1});
  EXPECT_EQ(number, 7U);
  EXPECT_EQ(processes.share(3.5), 3.5);
  EXPECT_EQ(processes.share(std::string("text")), "text");
  EXPECT_EQ(processes.first_text("text"), "text");
  EXPECT_EQ(processes.first_text(std::nullopt), std::nullopt);
}

TEST(Processes, share_what_the_speaker_has) {
  for_all_processes([](const Processes& processes) {
    EXPECT_EQ(processes.share(processes.rank() + 10), 10);
    EXPECT_EQ(processes.share(std::string(static_cast<std::size_t>(processes.rank()) + 3, 'a')), "aaa");
    EXPECT_EQ(processes.share(processes.is_speaker()), true);
  });
}

TEST(Processes, add_up_entry_by_entry) {
  for_all_processes([](const Processes& processes) {
    const auto rank = static_cast<std::uint64_t>(processes.rank());
    const auto size = static_cast<std::uint64_t>(processes.size());
    std::uint64_t numbers[] = {1, rank, UINT64_MAX};
    processes.add_up(numbers);
    EXPECT_EQ(numbers[0], size);
    EXPECT_EQ(numbers[1], size * (size - 1) / 2);
    EXPECT_EQ(numbers[2], 0 - size);
  });
}

TEST(Processes, hear_the_first_that_has_a_text) {
  for_all_processes([](const Processes& processes) {
    const int last = processes.size() - 1;
    const auto text_from = [&](int first) -> std::optional<std::string> {
      if (processes.rank() < first) return std::nullopt;
      return "text of " + std::to_string(processes.rank());
    };
    EXPECT_EQ(processes.first_text(text_from(0)), "text of 0");
    EXPECT_EQ(processes.first_text(text_from(last)), "text of " + std::to_string(last));
    EXPECT_EQ(processes.first_text(text_from(last + 1)), std::nullopt);
  });
}

// --- Failures: the last process fails, and all throw the same.

template <typename Error>
Error error_of_last(const Processes& processes, const std::function<void()>& fail) {
  try {
    processes.do_together([&] {
      if (processes.rank() == processes.size() - 1) fail();
    });
  } catch (const Error& error) {
    return error;
  }
  throw InternalError("nothing was thrown");
}

Diagnostic sample_diagnostic() {
  const SourceText source{"sample.spmd", "q = a\n  / \xff\n", 3};
  Diagnostic diagnostic = diagnose(source, {8, 11}, "something", "do something else");
  diagnostic.notes.push_back(diagnose(source, {0, 1}, "this is why"));
  return diagnostic;
}

TEST(ProcessesFailure, work_that_succeeds_is_done_everywhere) {
  for_all_processes([](const Processes& processes) {
    int done = 0;
    processes.do_together([&] { ++done; });
    EXPECT_EQ(done, 1);
  });
}

TEST(ProcessesFailure, of_the_run_is_thrown_by_all) {
  for_all_processes([](const Processes& processes) {
    const auto error = error_of_last<RuntimeError>(processes, [] { throw RuntimeError("no memory"); });
    EXPECT_STREQ(error.what(), "no memory");
  });
}

TEST(ProcessesFailure, of_the_first_of_several_is_thrown_by_all) {
  for_all_processes([](const Processes& processes) {
    try {
      processes.do_together([&] { throw RuntimeError(std::to_string(processes.rank())); });
      FAIL() << "nothing was thrown";
    } catch (const RuntimeError& error) {
      EXPECT_STREQ(error.what(), "0");
    }
  });
}

TEST(ProcessesFailure, of_memory_is_one_of_the_run) {
  for_all_processes([](const Processes& processes) {
    EXPECT_STREQ(error_of_last<RuntimeError>(processes, [] { throw std::bad_alloc(); }).what(), "out of memory");
  });
}

TEST(ProcessesFailure, of_the_input_keeps_its_place) {
  for_all_processes([](const Processes& processes) {
    const auto error = error_of_last<InputError>(processes, [] { throw InputError(sample_diagnostic()); });
    EXPECT_EQ(to_string(error.diagnostic()), to_string(sample_diagnostic()));
    EXPECT_EQ(error.diagnostic().range.begin, 8U);
    EXPECT_EQ(error.diagnostic().range.end, 11U);
  });
}

TEST(ProcessesFailure, of_a_program_keeps_its_place) {
  for_all_processes([](const Processes& processes) {
    const auto error = error_of_last<ProgramFailure>(processes, [] { throw ProgramFailure(sample_diagnostic()); });
    EXPECT_EQ(to_string(error.diagnostic()), to_string(sample_diagnostic()));
    EXPECT_EQ(error.what() + std::string("\n"), to_string(sample_diagnostic()));
  });
}

}  // namespace
}  // namespace retile::test
