#include "retile/engines/staged_engine.h"

#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "retile/engines/movement_run.h"
#include "retile/engines/transfer_run.h"

namespace retile {
namespace {

class StagedEngine final : public Engine {
 public:
  explicit StagedEngine(std::shared_ptr<Backend> backend)
      : backend_(std::move(backend)), out_of_memory_(backend_->where() + ": out of memory") {}

  const char* name() const override { return backend_->name(); }
  std::vector<Device> devices(std::int64_t device_count) const override { return backend_->devices(device_count); }
  std::vector<std::int64_t> hosts(std::int64_t device_count) const override { return backend_->hosts(device_count); }
  std::int64_t devices_on_machine(std::int64_t device_count) const override {
    return backend_->devices_on_machine(device_count);
  }
  Buffer allocate(std::size_t bytes) override { return backend_->allocate(bytes); }
  bool has_host_memory() const override { return backend_->device_memory() == nullptr; }
  void load(const std::byte* tile, std::span<std::byte> to) const override {
    has_host_memory() ? Engine::load(tile, to) : backend_->device_memory()->load(tile, to);
  }
  void store(std::span<const std::byte> from, std::byte* tile) const override {
    has_host_memory() ? Engine::store(from, tile) : backend_->device_memory()->store(from, tile);
  }
  void clear(std::span<std::byte> tile) const override {
    has_host_memory() ? Engine::clear(tile) : backend_->device_memory()->clear(tile);
  }
  std::optional<std::int64_t> available_memory() const override {
    return has_host_memory() ? Engine::available_memory() : backend_->device_memory()->available();
  }
  Buffer allocate_pages(std::size_t bytes, Pages pages) override {
    return has_host_memory() ? Engine::allocate_pages(bytes, pages)
                             : backend_->device_memory()->allocate_pages(bytes, pages);
  }
  std::int64_t page_bytes() const override {
    return has_host_memory() ? Engine::page_bytes() : backend_->device_memory()->page_bytes();
  }
  std::int64_t resident_bytes(const Buffer& pages) const override {
    return has_host_memory() ? Engine::resident_bytes(pages) : backend_->device_memory()->resident_bytes(pages);
  }
  EngineMemory memory() const override { return backend_->memory(); }
  Executor executor(TileOwner owner) const override { return backend_->executor(owner); }
  const Processes& processes() const override { return backend_->processes(); }
  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    const std::unique_lock turn = backend_->take_turn();
    backend_->for_each(count, task);
  }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    return prepared([&] { return make_movement_run(backend_, with_short_lists(movement), element_size, strides); });
  }
  std::unique_ptr<PreparedRun> prepare_transfer(std::vector<Streams> phases) override {
    return prepared([&] { return make_transfer_run(backend_, std::move(phases)); });
  }
  std::vector<bool> find_staged(const Streams& streams) const override { return backend_->find_staged(streams); }

 private:
  // All other faults of a run are found by all processes together. A process without memory has to tell the others,
  // which wait for it.
  template <typename Make>
  std::unique_ptr<PreparedRun> prepared(Make make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      backend_->tell_failure(out_of_memory_);
      throw;
    }
  }

  const std::shared_ptr<Backend> backend_;
  const std::string out_of_memory_;  // made while there is some
};

}  // namespace

std::unique_ptr<Engine> make_staged_engine(std::shared_ptr<Backend> backend) {
  return std::make_unique<StagedEngine>(std::move(backend));
}

}  // namespace retile
