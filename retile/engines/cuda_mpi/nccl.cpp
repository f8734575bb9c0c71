#include "retile/engines/cuda_mpi/nccl.h"

#include "retile/base/error.h"

#ifdef RETILE_HAS_NCCL
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <chrono>
#include <thread>

#include "retile/engines/cuda/gpu.h"

namespace retile::cuda {
namespace {

// NCCL's functions, found when they are needed: programs start where there is no NCCL.
struct Nccl {
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRankConfig) init;
  decltype(&::ncclCommSplit) split;
  decltype(&::ncclCommCount) count;
  decltype(&::ncclCommUserRank) rank;
  decltype(&::ncclCommGetAsyncError) state;
  decltype(&::ncclCommFinalize) finalize;
  decltype(&::ncclCommDestroy) destroy;
  decltype(&::ncclCommAbort) abort;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) receive;
  decltype(&::ncclGetErrorString) error_string;
  decltype(&::ncclGetLastError) last_error;
};

void* open_library() {
  if (void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) return library;
  throw RuntimeError(fmt::format("NCCL cannot be loaded: {}", dlerror()));  // NOLINT(concurrency-mt-unsafe)
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw RuntimeError(fmt::format("NCCL is too old: it has no {}", name));
}

Nccl load() {
  void* const library = open_library();
  Nccl nccl{};
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclCommInitRankConfig", nccl.init);
  find(library, "ncclCommSplit", nccl.split);
  find(library, "ncclCommCount", nccl.count);
  find(library, "ncclCommUserRank", nccl.rank);
  find(library, "ncclCommGetAsyncError", nccl.state);
  find(library, "ncclCommFinalize", nccl.finalize);
  find(library, "ncclCommDestroy", nccl.destroy);
  find(library, "ncclCommAbort", nccl.abort);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.receive);
  find(library, "ncclGetErrorString", nccl.error_string);
  find(library, "ncclGetLastError", nccl.last_error);
  return nccl;
}

const Nccl& nccl() {
  static const Nccl functions = load();
  return functions;
}

// Calls that go on in a thread of NCCL's say so.
void require_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* const details = nccl().last_error(comm);
  throw RuntimeError(fmt::format("{} failed: {}{}{}", call, nccl().error_string(result),
                                 details == nullptr || *details == '\0' ? "" : ": ",
                                 details == nullptr ? "" : details));
}

bool is_in_progress(ncclComm_t comm, const char* call) {
  ncclResult_t state = ncclSuccess;
  require_nccl(nccl().state(comm, &state), call, comm);
  require_nccl(state, call, comm);
  return state == ncclInProgress;
}

// Throws RuntimeError where another rank has failed.
void finish(mpi::Job& job, ncclComm_t comm, const char* call) {
  while (is_in_progress(comm, call)) {
    job.look_for_failure();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void require_ranks(const mpi::Job& job, ncclComm_t callers) {
  int rank = 0;
  int count = 0;
  require_nccl(nccl().count(callers, &count), "ncclCommCount", callers);
  require_nccl(nccl().rank(callers, &rank), "ncclCommUserRank", callers);
  if (rank == job.world.rank() && count == job.world.size()) return;
  throw RuntimeError(fmt::format("rank {} of {} of the MPI communicator is rank {} of {} of NCCL's", job.world.rank(),
                                 job.world.size(), rank, count));
}

}  // namespace

NcclRanks::NcclRanks(mpi::Job& job, int gpu, ncclComm* callers) : job_(job), gpu_(gpu) {
  const mpi::Communicator& world = job_.world;
  ncclUniqueId id{};
  world.do_together([&] {
    nccl();
    if (callers != nullptr) require_ranks(job_, callers);
    if (callers == nullptr && world.rank() == 0) require_nccl(nccl().get_unique_id(&id), "ncclGetUniqueId", nullptr);
    const CurrentGpu current(gpu_);
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  });
  id = world.share(id);
  // A rank that fails tells those that wait for it in NCCL.
  world.do_together([&] {
    try {
      connect(callers, &id);
    } catch (const RuntimeError& error) {
      job_.tell_failure(error.what());
      abort();
      throw;
    }
  });
}

void NcclRanks::connect(ncclComm* callers, const void* id) {
  const CurrentGpu current(gpu_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const int rank = job_.world.rank();
  if (callers != nullptr) {
    require_nccl(nccl().split(callers, 0, rank, &comm_, &config), "ncclCommSplit", callers);
    finish(job_, callers, "ncclCommSplit");
  } else {
    require_nccl(nccl().init(&comm_, job_.world.size(), *static_cast<const ncclUniqueId*>(id), rank, &config),
                 "ncclCommInitRankConfig", nullptr);
  }
  finish(job_, comm_, "ncclCommInitRankConfig");
}

NcclRanks::~NcclRanks() {
  if (comm_ != nullptr && job_.failure() == nullptr) {
    try {
      require_nccl(nccl().finalize(comm_), "ncclCommFinalize", comm_);
      finish(job_, comm_, "ncclCommFinalize");
      nccl().destroy(comm_);
      comm_ = nullptr;
    } catch (const RuntimeError&) {  // NOLINT(bugprone-empty-catch): nobody is left to hear of it
    }
  }
  abort();
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void NcclRanks::exchange(std::span<const NcclMessage> sent, std::span<const NcclMessage> received) {
  if (comm_ == nullptr) throw RuntimeError("NCCL's communicator has been aborted");
  if (sent.empty() && received.empty()) return;
  require_nccl(nccl().group_start(), "ncclGroupStart", comm_);
  for (const NcclMessage& message : sent) {
    require_nccl(nccl().send(message.data, message.bytes, ncclUint8, message.peer, comm_, stream_), "ncclSend", comm_);
  }
  for (const NcclMessage& message : received) {
    require_nccl(nccl().receive(message.data, message.bytes, ncclUint8, message.peer, comm_, stream_), "ncclRecv",
                 comm_);
  }
  require_nccl(nccl().group_end(), "ncclGroupEnd", comm_);
}

bool NcclRanks::is_queued() {
  if (comm_ == nullptr) throw RuntimeError("NCCL's communicator has been aborted");
  return !is_in_progress(comm_, "a message of NCCL");
}

void NcclRanks::abort() noexcept {
  if (comm_ != nullptr) nccl().abort(comm_);
  comm_ = nullptr;
}

}  // namespace retile::cuda

#else

namespace retile::cuda {

NcclRanks::NcclRanks(mpi::Job& job, int gpu, ncclComm*) : job_(job), gpu_(gpu) {
  throw RuntimeError("this retile was built without NCCL");
}
NcclRanks::~NcclRanks() = default;
void NcclRanks::exchange(std::span<const NcclMessage>, std::span<const NcclMessage>) {}
bool NcclRanks::is_queued() { return true; }
void NcclRanks::abort() noexcept {}

}  // namespace retile::cuda

#endif
