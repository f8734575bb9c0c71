// Memory of a GPU whose pages come and go while its addresses stay (cuMemMap).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "retile/memory/buffer.h"

namespace retile::cuda {

// Pages that are given back are kept for those that are taken next, so that there are never more than were mapped at
// once; release_kept() frees them.
class GpuPages : public std::enable_shared_from_this<GpuPages> {
 public:
  // Throws RuntimeError where the GPU has no such memory.
  explicit GpuPages(int gpu);
  GpuPages(const GpuPages&) = delete;
  GpuPages& operator=(const GpuPages&) = delete;
  ~GpuPages() { release_kept(); }

  std::int64_t page_bytes() const { return page_; }
  // Addresses from a page on, without pages.
  Buffer reserve(std::size_t bytes);
  // Whole pages of reserved addresses; those that are there stay. Throws RuntimeError where there is no memory left, or
  // the addresses are others.
  void take(const std::byte* pages, std::size_t bytes);
  // Nothing on the GPU uses them any more.
  void give_back(const std::byte* pages, std::size_t bytes);
  void release_kept();
  // Bytes of pages that are there.
  std::int64_t resident_bytes(const Buffer& reserved) const;

 private:
  using Page = unsigned long long;  // as the driver names it; 0: none

  struct Range {
    std::vector<Page> pages;
    std::int64_t count = 0;  // that are there
  };
  struct Place {
    Range* range;
    std::size_t first;
    std::size_t end;
  };
  Place find(const std::byte* pages, std::size_t bytes);
  Page new_page();
  void set_access(const std::byte* pages, std::size_t count) const;
  void free(const std::byte* begin) noexcept;

  const int gpu_;
  std::int64_t page_ = 0;
  std::map<const std::byte*, Range> reserved_;  // by where they begin
  std::vector<Page> kept_;
};

}  // namespace retile::cuda
