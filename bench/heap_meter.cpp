#include "bench/heap_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "retile/base/error.h"

namespace retile::bench {
namespace {

// Off while time is measured: then a block costs one test more than it would without us.
std::atomic<bool> counting = false;
std::atomic<std::int64_t> current = 0;
std::atomic<std::int64_t> peak = 0;

void count_allocated(void* block) {
  if (!counting.load(std::memory_order_relaxed)) return;
  const std::int64_t now = current += static_cast<std::int64_t>(malloc_usable_size(block));
  std::int64_t seen = peak;
  while (seen < now && !peak.compare_exchange_weak(seen, now)) {
  }
}

void count_freed(void* block) {
  if (counting.load(std::memory_order_relaxed)) current -= static_cast<std::int64_t>(malloc_usable_size(block));
}

void* allocate(std::size_t size) {
  void* block = std::malloc(std::max<std::size_t>(size, 1));
  if (block == nullptr) throw std::bad_alloc();
  count_allocated(block);
  return block;
}

void release(void* block) {
  if (block == nullptr) return;
  count_freed(block);
  std::free(block);
}

}  // namespace

HeapMeter::HeapMeter() {
  ensure(!counting, "one heap meter at a time");
  current = 0;
  peak = 0;
  counting = true;
}

HeapMeter::~HeapMeter() { counting = false; }

std::int64_t HeapMeter::peak_bytes() const { return peak; }

}  // namespace retile::bench

// Over-aligned blocks keep the standard operators, and are not counted: planning has none.
void* operator new(std::size_t size) { return retile::bench::allocate(size); }
void* operator new[](std::size_t size) { return retile::bench::allocate(size); }
void operator delete(void* block) noexcept { retile::bench::release(block); }
void operator delete[](void* block) noexcept { retile::bench::release(block); }
void operator delete(void* block, std::size_t) noexcept { retile::bench::release(block); }
void operator delete[](void* block, std::size_t) noexcept { retile::bench::release(block); }
