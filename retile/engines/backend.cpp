#include "retile/engines/backend.h"

#include <sys/mman.h>

#include <algorithm>

#include "retile/base/error.h"
#include "retile/copies/combine.h"

namespace retile {
namespace {

// Bytes of a task that combines elements.
constexpr std::int64_t combined_bytes = 256 << 10;

}  // namespace

BufferStrides Backend::require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) {
  require_element_size(movement, element_size);
  return require_strides(own, movement.source, movement.target(), devices(movement.mesh.device_count()), element_size);
}

void Backend::combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) {
  struct Task {
    const PartsToCombine* parts;
    std::int64_t first;
    std::int64_t count;
  };
  const std::int64_t length = std::max<std::int64_t>(1, combined_bytes / bytes_of(reduce.element));
  std::vector<Task> tasks;
  for (const PartsToCombine& parts : tiles) {
    for (std::int64_t first = 0; first < parts.row_elements; first += length) {
      tasks.push_back({&parts, first, std::min(length, parts.row_elements - first)});
    }
  }
  for_each(tasks.size(), [&](std::size_t task) {
    const auto& [parts, first, count] = tasks[task];
    combine_rows(reduce.reduction, reduce.element, parts->rows, parts->row_elements, first, count, parts->in,
                 parts->out);
  });
}

void give_back_private(const std::byte* pages, std::size_t bytes) {
  void* memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast): donated
  if (madvise(memory, bytes, MADV_DONTNEED) != 0) throw RuntimeError("the system does not take pages back");
}

}  // namespace retile
