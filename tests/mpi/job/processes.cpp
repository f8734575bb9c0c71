// Ranks as processes: what they agree on.
#include "retile/engines/processes.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"

namespace retile::mpi {
namespace {

using test::error_of;

class ProcessesOfRanks : public testing::Test {
 protected:
  const std::unique_ptr<Engine> engine_ = make_mpi_engine(MPI_COMM_WORLD);
  const Processes& processes_ = engine_->processes();
};

TEST_F(ProcessesOfRanks, are_the_ranks) {
  EXPECT_EQ(processes_.rank(), job_rank());
  EXPECT_EQ(processes_.size(), job_size());
  EXPECT_EQ(processes_.is_speaker(), job_rank() == 0);
}

TEST_F(ProcessesOfRanks, share_what_the_speaker_has) {
  EXPECT_EQ(processes_.share(job_rank() + 10), 10);
  EXPECT_EQ(processes_.share(std::string(static_cast<std::size_t>(job_rank()), 'a')), "");
  EXPECT_EQ(processes_.share(std::string(static_cast<std::size_t>(job_rank()) + 100000, 'a')),
            std::string(100000, 'a'));
}

TEST_F(ProcessesOfRanks, add_up_entry_by_entry) {
  const auto size = static_cast<std::uint64_t>(job_size());
  std::uint64_t numbers[] = {1, static_cast<std::uint64_t>(job_rank()), UINT64_MAX};
  processes_.add_up(numbers);
  EXPECT_EQ(numbers[0], size);
  EXPECT_EQ(numbers[1], size * (size - 1) / 2);
  EXPECT_EQ(numbers[2], 0 - size);
}

TEST_F(ProcessesOfRanks, hear_the_first_that_has_a_text) {
  const int last = job_size() - 1;
  const std::string mine = "text of " + std::to_string(job_rank());
  EXPECT_EQ(processes_.first_text(mine), "text of 0");
  EXPECT_EQ(processes_.first_text(job_rank() == last ? std::optional(mine) : std::nullopt),
            "text of " + std::to_string(last));
  EXPECT_EQ(processes_.first_text(std::nullopt), std::nullopt);
}

TEST_F(ProcessesOfRanks, say_what_they_were_given_differently) {
  const int last = job_size() - 1;
  const bool differs = job_rank() == last && last > 0;
  const auto error = [&](std::vector<Processes::Named> mine) {
    return error_of([&] { processes_.require_same("things", mine); });
  };
  const std::string rank = std::to_string(last);
  EXPECT_EQ(error({{"a", "1"}, {"b", "2"}}), "");
  const std::string changed = error({{"a", "1"}, {"b", differs ? "3" : "2"}});
  std::vector<Processes::Named> longer{{"a", "1"}};
  if (differs) longer.push_back({"b", "2"});
  const std::string added = error(longer);
  if (last == 0) return;
  EXPECT_EQ(changed, "the ranks were given different things: b is 2 on rank 0 and 3 on rank " + rank);
  EXPECT_EQ(added, "the ranks were given different things: b is missing on rank 0 and 2 on rank " + rank);
}

TEST_F(ProcessesOfRanks, fail_together_and_keep_the_place) {
  const Diagnostic expected = diagnose({"sample.spmd", "q = a / b\n"}, {4, 9}, "something", "do something else");
  try {
    processes_.do_together([&] {
      if (job_rank() == job_size() - 1) throw ProgramFailure(expected);
    });
    FAIL() << "nothing was thrown";
  } catch (const ProgramFailure& failure) {
    EXPECT_EQ(to_string(failure.diagnostic()), to_string(expected));
  }
  EXPECT_EQ(error_of([&] { processes_.do_together([] {}); }), "");
}

}  // namespace
}  // namespace retile::mpi
