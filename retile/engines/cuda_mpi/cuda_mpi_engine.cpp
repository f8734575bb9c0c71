#include "retile/engines/cuda_mpi/cuda_mpi_engine.h"

#include <utility>

#include "retile/base/error.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda_mpi/gpu_ranks.h"
#include "retile/engines/cuda_mpi/nccl.h"
#include "retile/engines/cuda_mpi/nccl_streams.h"
#include "retile/engines/cuda_mpi/rank_streams.h"
#include "retile/engines/mpi/mpi_backend.h"
#include "retile/engines/staged_engine.h"

namespace retile::cuda {
namespace {

// The GPU of this rank. Collective.
std::shared_ptr<Gpu> choose_gpu(const mpi::Communicator& world, const CudaRankOptions& options) {
  const mpi::Communicator host = world.split_by_host();
  std::shared_ptr<Gpu> gpu;
  world.do_together([&] {
    CudaOptions chosen;
    chosen.gpu = options.gpu ? *options.gpu : host.rank() % count_gpus();
    chosen.memory_limit = options.memory_limit;
    gpu = std::make_shared<Gpu>(chosen);
  });
  return gpu;
}

const char* name_of(CudaTransport transport) {
  switch (transport) {
    case CudaTransport::automatic:
      return "automatic";
    case CudaTransport::ipc:
      return "ipc";
    case CudaTransport::nccl:
      return "nccl";
  }
  return "";
}

// Null where tiles go by CUDA IPC. Collective.
std::unique_ptr<NcclRanks> make_nccl(mpi::Job& job, int gpu, const CudaRankOptions& options) {
  const Processes::Named named[] = {
      {"the transport between GPUs", name_of(options.transport)},
      {"NCCL's communicator", options.communicator == nullptr ? "the engine's own" : "the caller's"}};
  job.world.require_same("options", named);
  const bool is_one_host = job.world.split_by_host().size() == job.world.size();  // on all ranks, or on none
  if (options.transport == CudaTransport::ipc && !is_one_host) {
    throw RuntimeError("CUDA IPC joins ranks of one host, and these are on several");
  }
  if (options.transport != CudaTransport::nccl && is_one_host) return nullptr;
  return std::make_unique<NcclRanks>(job, gpu, options.communicator);
}

class CudaRanksBackend final : public mpi::MpiBackend {
 public:
  CudaRanksBackend(std::shared_ptr<mpi::Job> job, const CudaRankOptions& options)
      : MpiBackend(std::move(job)),
        gpu_(choose_gpu(this->job().world, options)),
        gpus_(this->job().world, gpu_->number()),
        nccl_(make_nccl(this->job(), gpu_->number(), options)) {}

  const char* name() const override { return "cuda"; }
  // Those that share this rank's GPU.
  std::int64_t devices_on_machine(std::int64_t device_count) const override {
    return static_cast<std::int64_t>(ranks_of(device_count).devices_per_rank()) * gpus_.team_size();
  }
  std::unique_ptr<Work> queued() override { return gpu_->queued(); }

  // Groups of NCCL have an order that all ranks keep to: that in which runs are started.
  Progress progress() const override { return nccl_ ? Progress::at_start : MpiBackend::progress(); }
  // Messages that wait for a rank that has failed never end by themselves.
  void finish(Work& work) override {
    try {
      MpiBackend::finish(work);
    } catch (...) {
      abort_messages();
      throw;
    }
  }
  void tell_failure(std::string_view text) noexcept override {
    MpiBackend::tell_failure(text);
    abort_messages();
  }

  // Answers for tiles on GPUs: the general ones, since MpiBackend's are for tiles in memory of hosts.
  // NOLINTBEGIN(bugprone-parent-virtual-call)
  EngineMemory memory() const override { return {Backend::memory().between, nccl_ ? job().options.staging_bytes : 0}; }
  Executor executor(TileOwner owner) const override { return Backend::executor(owner); }
  std::vector<bool> find_staged(const Streams& streams) const override { return Backend::find_staged(streams); }
  // NOLINTEND(bugprone-parent-virtual-call)
  std::int64_t memory_limit() const override { return gpu_->memory_limit(); }
  std::int64_t listed_bytes() const override { return no_memory_limit; }  // kernels need lists
  Buffer allocate(std::size_t bytes) override { return gpu_->allocate(bytes); }
  const DeviceMemory* device_memory() const override { return gpu_.get(); }
  bool is_shared(const std::byte*) const override { return true; }
  void give_back(const std::byte*, std::size_t) override {
    throw RuntimeError("the cuda engine does not move in place");
  }

  void combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) override {
    gpu_->combine(reduce, tiles);
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    const mpi::DeviceRanks ranks = ranks_of(streams.device_count);
    if (nccl_) return make_nccl_streams(job(), *nccl_, gpu_, streams, ranks);
    return make_rank_streams(job(), gpus_, gpu_, std::move(streams), ranks);
  }

 private:
  void abort_messages() noexcept {
    if (nccl_) nccl_->abort();
  }

  const std::shared_ptr<Gpu> gpu_;
  const GpuRanks gpus_;
  const std::unique_ptr<NcclRanks> nccl_;
};

}  // namespace

std::unique_ptr<Engine> make_cuda_engine(MPI_Comm comm, const CudaRankOptions& options) {
  mpi::MpiOptions job_options;
  job_options.device_map = options.device_map;
  job_options.staging_bytes = options.staging_bytes;
  return make_staged_engine(std::make_shared<CudaRanksBackend>(std::make_shared<mpi::Job>(comm, job_options), options));
}

std::unique_ptr<Engine> make_cuda_engine_on_all_ranks(const CudaRankOptions& options) {
  return make_cuda_engine(MPI_COMM_WORLD, options);
}

}  // namespace retile::cuda
