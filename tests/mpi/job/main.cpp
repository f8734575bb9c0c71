// Runs the tests on all ranks. Rank 0 speaks; a rank on which something fails says so and ends the job, since the
// others would wait for it.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>

namespace {

class EndJobOnFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank, result.file_name() == nullptr ? "" : result.file_name(),
                 result.line_number(), result.message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
};

}  // namespace

int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  testing::InitGoogleTest(&argument_count, arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) std::unique_ptr<testing::TestEventListener>(listeners.Release(listeners.default_result_printer()));
  listeners.Append(new EndJobOnFailure);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
