#include "retile/engines/mpi/communicator.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

// How often a call is asked whether it is done, between looks for failures, and before the core is left to others.
constexpr std::uint64_t polls_between_looks = 64;
constexpr std::uint64_t polls_before_yields = 256;
// How long a call goes on after a failure is told: the rank may have failed after it took part.
constexpr std::chrono::milliseconds grace{100};

}  // namespace

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
      is_kept_(other.is_kept_),
      watch_(other.watch_) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(is_kept_, other.is_kept_);
  std::swap(watch_, other.watch_);
  return *this;
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL && !is_kept_ && !is_mpi_over()) MPI_Comm_free(&comm_);
}

Communicator Communicator::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  Communicator made(part);
  made.watch_ = watch_;
  return made;
}

Communicator Communicator::split_by_host() const {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &part), "MPI_Comm_split_type");
  return Communicator(part);
}

// The bytes are copied: a call that is given up may still write to them.
template <typename Start>
void Communicator::call(const char* name, std::span<std::byte> bytes, Start start) const {
  if (watch_ != nullptr) watch_->require_no_earlier_failure();
  auto copy = std::make_unique<std::byte[]>(bytes.size());  // NOLINT(*-avoid-c-arrays)
  std::copy(bytes.begin(), bytes.end(), copy.get());
  MPI_Request request = MPI_REQUEST_NULL;
  check(start(copy.get(), &request), name);
  try {
    wait(request, name);
  } catch (...) {
    (void)copy.release();
    keep();
    throw;
  }
  std::copy_n(copy.get(), bytes.size(), bytes.begin());
}

void Communicator::wait(MPI_Request request, const char* name) const {
  using Clock = std::chrono::steady_clock;
  std::exception_ptr failure;
  Clock::time_point end;
  for (std::uint64_t polls = 0;; ++polls) {
    int is_done = 0;
    check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), name);
    if (is_done != 0) return;
    if (failure != nullptr && Clock::now() > end) std::rethrow_exception(failure);
    if (polls > polls_before_yields) sched_yield();
    if (watch_ == nullptr || failure != nullptr || polls % polls_between_looks != 0) continue;
    try {
      watch_->look_for_failure();
    } catch (const RuntimeError&) {
      failure = std::current_exception();
      end = Clock::now() + grace;
    }
  }
}

void Communicator::barrier() const {
  call("MPI_Ibarrier", {}, [&](void*, MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
}

std::int64_t Communicator::least(std::int64_t value) const {
  call("MPI_Iallreduce", std::as_writable_bytes(std::span(&value, 1)), [&](void* bytes, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, bytes, 1, MPI_INT64_T, MPI_MIN, comm_, request);
  });
  return value;
}

void Communicator::add_up(std::span<std::uint64_t> numbers) const {
  call("MPI_Iallreduce", std::as_writable_bytes(numbers), [&](void* bytes, MPI_Request* request) {
    const auto count = static_cast<int>(numbers.size());
    return MPI_Iallreduce(MPI_IN_PLACE, bytes, count, MPI_UINT64_T, MPI_SUM, comm_, request);
  });
}

void Communicator::broadcast(std::span<std::byte> bytes, int from) const {
  constexpr std::size_t most_bytes = 1 << 30;  // at once: counts have 32 bits
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), most_bytes))) {
    const std::span<std::byte> part = bytes.first(std::min(bytes.size(), most_bytes));
    call("MPI_Ibcast", part, [&](void* copy, MPI_Request* request) {
      return MPI_Ibcast(copy, static_cast<int>(part.size()), MPI_BYTE, from, comm_, request);
    });
  }
}

void Communicator::most(std::span<std::int64_t> values) const {
  call("MPI_Iallreduce", std::as_writable_bytes(values), [&](void* bytes, MPI_Request* request) {
    const auto count = static_cast<int>(values.size());
    return MPI_Iallreduce(MPI_IN_PLACE, bytes, count, MPI_INT64_T, MPI_MAX, comm_, request);
  });
}

void Communicator::gather(std::int64_t value, std::span<std::int64_t> all) const {
  ensure(static_cast<int>(all.size()) == size_, "a gathered list has an entry for each rank");
  all[static_cast<std::size_t>(rank_)] = value;
  gather(all);
}

void Communicator::gather(std::span<std::int64_t> all) const {
  call("MPI_Iallgather", std::as_writable_bytes(all), [&](void* bytes, MPI_Request* request) {
    const auto count = static_cast<int>(all.size()) / size_;
    return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, bytes, count, MPI_INT64_T, comm_, request);
  });
}

}  // namespace retile::mpi
