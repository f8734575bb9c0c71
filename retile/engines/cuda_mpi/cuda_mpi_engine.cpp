#include "retile/engines/cuda_mpi/cuda_mpi_engine.h"

#include <fmt/format.h>

#include <utility>

#include "retile/base/error.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda_mpi/gpu_ranks.h"
#include "retile/engines/cuda_mpi/rank_streams.h"
#include "retile/engines/mpi/mpi_backend.h"
#include "retile/engines/staged_run.h"

namespace retile::cuda {
namespace {

// The GPU of this rank. Collective.
std::shared_ptr<Gpu> choose_gpu(const mpi::Communicator& world, const CudaRankOptions& options) {
  const mpi::Communicator host = world.split_by_host();
  std::shared_ptr<Gpu> gpu;
  world.do_together([&] {
    if (host.size() < world.size()) {
      throw RuntimeError(
          fmt::format("the cuda engine joins ranks of one host, and rank {} shares its own with {} of {}", world.rank(),
                      host.size() - 1, world.size() - 1));
    }
    CudaOptions chosen;
    chosen.gpu = options.gpu ? *options.gpu : host.rank() % count_gpus();
    chosen.memory_limit = options.memory_limit;
    gpu = std::make_shared<Gpu>(chosen);
  });
  return gpu;
}

class CudaRanksBackend final : public mpi::MpiBackend {
 public:
  CudaRanksBackend(std::shared_ptr<mpi::Job> job, const CudaRankOptions& options)
      : MpiBackend(std::move(job)),
        gpu_(choose_gpu(this->job().world, options)),
        gpus_(this->job().world, gpu_->number()) {}

  const char* name() const override { return "cuda"; }
  // Those that share this rank's GPU.
  std::int64_t devices_on_machine(std::int64_t device_count) const override {
    return static_cast<std::int64_t>(ranks_of(device_count).devices_per_rank()) * gpus_.team_size();
  }
  std::unique_ptr<Work> queued() override { return gpu_->queued(); }

  EngineMemory memory() const override { return Backend::memory(); }
  Executor executor(TileOwner owner) const override { return Backend::executor(owner); }
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
  std::vector<bool> find_staged(const Streams& streams) const override { return Backend::find_staged(streams); }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    const mpi::DeviceRanks ranks = ranks_of(streams.device_count);
    return make_rank_streams(job(), gpus_, gpu_, std::move(streams), ranks);
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const GpuRanks gpus_;
};

}  // namespace

std::unique_ptr<Engine> make_cuda_engine(MPI_Comm comm, const CudaRankOptions& options) {
  mpi::MpiOptions job_options;
  job_options.device_map = options.device_map;
  return make_staged_engine(std::make_shared<CudaRanksBackend>(std::make_shared<mpi::Job>(comm, job_options), options));
}

std::unique_ptr<Engine> make_cuda_engine_on_all_ranks(const CudaRankOptions& options) {
  return make_cuda_engine(MPI_COMM_WORLD, options);
}

}  // namespace retile::cuda
