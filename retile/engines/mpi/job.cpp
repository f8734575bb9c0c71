#include "retile/engines/mpi/job.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

constexpr int failure_tag = 1;
constexpr int first_tag = 2;

// Waiting for other ranks: looks again at once, then leaves the core to them, then sleeps.
class Waiting {
 public:
  explicit Waiting(Job& job) : job_(job), spins_(job.host.is_crowded() ? 0 : most_spins) {}

  void reset() { pauses_ = 0; }
  void pause() {
    ++pauses_;
    if (pauses_ <= spins_) return spin();
    // Lets MPI work, too.
    if (pauses_ % pauses_between_looks == 0) job_.look_for_failure();
    if (pauses_ <= spins_ + most_yields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(nap);
    }
  }

 private:
  static constexpr int most_spins = 1000;  // some 20 microseconds
  static constexpr int most_yields = 400;  // some 100 microseconds where nobody else wants the core
  static constexpr int pauses_between_looks = 8;
  static constexpr std::chrono::microseconds nap{20};

  static void spin() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  Job& job_;
  const int spins_;
  int pauses_ = 0;
};

Communicator duplicate_for(MPI_Comm comm, const MpiOptions& options) {
  Communicator world = Communicator::duplicate(comm);
  require_same_options(world, options);
  return world;
}

const char* name_of(HostView hosts) { return hosts == HostView::detected ? "detected" : "every rank alone"; }

const char* name_of(Reading reading) {
  switch (reading) {
    case Reading::measured:
      return "measured";
    case Reading::always:
      return "always";
    case Reading::never:
      return "never";
  }
  return "";
}

}  // namespace

void require_same_options(const Processes& processes, const MpiOptions& options) {
  const Processes::Named named[] = {
      {"the staging", fmt::format("{} bytes", options.staging_bytes)},
      {"the transport", mpi::name_of(options.transport)},
      {"the view of hosts", name_of(options.hosts)},
      {"reading", name_of(options.reading)},
      {"the memory for lists", fmt::format("{} bytes", options.listed_bytes)},
      {"the rates of links", fmt::format("{}", fmt::join(options.link_rates, ", "))},
      {"the device map",
       options.device_map.empty() ? "row-major" : fmt::format("{}", fmt::join(options.device_map, ","))}};
  processes.require_same("options", named);
  const std::int64_t least = std::max<std::int64_t>(least_staging, std::int64_t{64} * processes.size());
  if (options.staging_bytes >= least && options.staging_bytes <= most_staging) return;
  throw RuntimeError(
      fmt::format("staging of {} bytes is not between {} and {}", options.staging_bytes, least, most_staging));
}

Job::Job(MPI_Comm comm, MpiOptions job_options)
    : options(std::move(job_options)), world(duplicate_for(comm, options)), host(world, options), teams(world) {
  void* limit = nullptr;
  int is_known = 0;
  check(MPI_Comm_get_attr(world.get(), MPI_TAG_UB, &limit, &is_known), "MPI_Comm_get_attr");
  if (is_known != 0) tag_limit_ = *static_cast<const int*>(limit);
  for (const Communicator* ranks : {&world, &host.team()}) ranks->watch_failures(*this);
}

// A slower rank may still read what this one has packed for it. After a failure, messages may be under way that nobody
// waits for.
Job::~Job() {
  free_retired();
  if (!retired_.empty()) host.keep_pages();
  try {
    if (!is_mpi_over()) receive_failure();
  } catch (const RuntimeError&) {
    world.keep();
  }
  if (failure() != nullptr) world.keep();
}

double Job::seconds_between(std::int64_t start, std::int64_t end) const {
  std::int64_t times[] = {end, -start};
  host.team().most(times);
  std::int64_t longest[] = {times[0] + times[1]};
  world.most(longest);
  return static_cast<double>(longest[0]) * 1e-9;
}

int Job::new_tag() { return static_cast<int>(first_tag + tags_++ % (tag_limit_ - first_tag)); }

void Job::finish(Work& work) {
  Waiting waiting(*this);
  while (!work.is_done()) {
    // Whoever this rank waits for may wait for it in another run.
    const bool has_worked = work.advance();
    advance_begun() || has_worked ? waiting.reset() : waiting.pause();
  }
}

bool Job::advance_begun() {
  bool has_worked = false;
  for (Work* work : begun_) has_worked = work->advance() || has_worked;
  return has_worked;
}

void Job::retire(std::shared_ptr<PreparedStreams> streams, Buffer staging) {
  free_retired();
  retired_.emplace_back(std::move(streams), std::move(staging));
}

void Job::free_retired() {
  std::erase_if(retired_, [](const auto& one) { return !one.first->is_staging_read(); });
}

void Job::tell_failure(std::string_view text) noexcept {
  if (failure() != nullptr) return;
  const std::size_t length = std::min(text.size(), sizeof failure_ - 1);
  std::memcpy(failure_, text.data(), length);
  failure_[length] = '\0';
  for (int rank = 0; rank < world.size(); ++rank) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == world.rank()) continue;
    const int code = MPI_Isend(failure_, static_cast<int>(length), MPI_CHAR, rank, failure_tag, world.get(), &request);
    if (code == MPI_SUCCESS && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void Job::require_no_earlier_failure() const {
  if (failure() != nullptr) throw RuntimeError(std::string("an earlier run failed: ") + failure_);
}

void Job::look_for_failure() {
  if (failure() == nullptr) receive_failure();
  if (failure() != nullptr) throw RuntimeError(failure_);
}

void Job::receive_failure() {
  int is_there = 0;
  MPI_Status status;
  check(MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, world.get(), &is_there, &status), "MPI_Iprobe");
  if (is_there == 0) return;
  int length = 0;
  check(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  check(MPI_Recv(failure_, length, MPI_CHAR, status.MPI_SOURCE, failure_tag, world.get(), MPI_STATUS_IGNORE),
        "MPI_Recv");
  failure_[length] = '\0';
}

}  // namespace retile::mpi
