#include "retile/engines/mpi/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/error.h"

namespace retile::mpi {
void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw RuntimeError(fmt::format("{}: {}", call, length == 0 ? "unknown error" : text));
}

bool is_mpi_over() {
  int is_finalized = 0;
  return MPI_Finalized(&is_finalized) != MPI_SUCCESS || is_finalized != 0;
}

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

void require_communicator(MPI_Comm comm) {
  int is_started = 0;
  check(MPI_Initialized(&is_started), "MPI_Initialized");
  if (is_started == 0) throw RuntimeError("MPI is not started: call MPI_Init before");
  if (comm == MPI_COMM_NULL) throw RuntimeError("the communicator is MPI_COMM_NULL");
  int is_between_groups = 0;
  check(MPI_Comm_test_inter(comm, &is_between_groups), "MPI_Comm_test_inter");
  if (is_between_groups != 0) {
    throw RuntimeError(
        "the communicator is one between two groups: make one of all their ranks with MPI_Intercomm_merge");
  }
}

Communicator Communicator::duplicate(MPI_Comm comm) {
  require_communicator(comm);
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return Communicator(copy);
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      rank_(other.rank_),
      size_(other.size_),
      is_kept_(other.is_kept_) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(is_kept_, other.is_kept_);
  return *this;
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL && !is_kept_ && !is_mpi_over()) MPI_Comm_free(&comm_);
}

Communicator Communicator::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  return Communicator(part);
}

Communicator Communicator::split_by_host() const {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &part), "MPI_Comm_split_type");
  return Communicator(part);
}

void Communicator::barrier() const { check(MPI_Barrier(comm_), "MPI_Barrier"); }

std::int64_t Communicator::least(std::int64_t value) const {
  std::int64_t result = 0;
  check(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, MPI_MIN, comm_), "MPI_Allreduce");
  return result;
}

void Communicator::add_up(std::span<std::uint64_t> numbers) const {
  const auto count = static_cast<int>(numbers.size());
  check(MPI_Allreduce(MPI_IN_PLACE, numbers.data(), count, MPI_UINT64_T, MPI_SUM, comm_), "MPI_Allreduce");
}

void Communicator::broadcast(std::span<std::byte> bytes, int from) const {
  constexpr std::size_t most_bytes = 1 << 30;  // at once: counts have 32 bits
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), most_bytes))) {
    const auto count = static_cast<int>(std::min(bytes.size(), most_bytes));
    check(MPI_Bcast(bytes.data(), count, MPI_BYTE, from, comm_), "MPI_Bcast");
  }
}

void Communicator::most(std::span<std::int64_t> values) const {
  const auto count = static_cast<int>(values.size());
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_INT64_T, MPI_MAX, comm_), "MPI_Allreduce");
}

void Communicator::gather(std::int64_t value, std::span<std::int64_t> all) const {
  ensure(static_cast<int>(all.size()) == size_, "a gathered list has an entry for each rank");
  check(MPI_Allgather(&value, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, comm_), "MPI_Allgather");
}

}  // namespace retile::mpi
