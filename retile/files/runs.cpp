#include "retile/files/runs.h"

#include <cstring>
#include <span>

namespace retile::files {
namespace {

constexpr std::int64_t most_gap = 1 << 13;  // bytes that are read with the runs around them

std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

void make_window(Buffer& window) {
  if (window.size() < size_of(window_bytes)) window = Buffer(size_of(window_bytes));
}

}  // namespace

void read_runs(const File& file, const BoxCopy& copy, std::byte* tile, Buffer& window, Reads reads) {
  const std::int64_t length = copy.run_bytes();
  const std::int64_t runs = copy.run_count();
  const auto read = [&](std::int64_t offset, std::span<std::byte> out) {
    reads == Reads::once ? file.read_once(offset, out) : file.read(offset, out);
  };
  for (std::int64_t run = 0; run < runs;) {
    const BoxCopy::RunPlace first = copy.run_place(run);
    std::int64_t end = first.from + length;
    std::int64_t next = run + 1;
    for (; length < window_bytes && next < runs; ++next) {
      const std::int64_t from = copy.run_place(next).from;
      if (from < end || from - end > most_gap || from + length - first.from > window_bytes) break;
      end = from + length;
    }
    if (next == run + 1) {
      read(first.from, std::span(tile + first.to, size_of(length)));
    } else {
      make_window(window);
      const std::span<std::byte> bytes(window.data(), size_of(end - first.from));
      // What lies in gaps is wanted by others.
      end - first.from == (next - run) * length ? read(first.from, bytes) : file.read(first.from, bytes);
      for (std::int64_t i = run; i < next; ++i) {
        const BoxCopy::RunPlace one = copy.run_place(i);
        std::memcpy(tile + one.to, window.data() + (one.from - first.from), size_of(length));
      }
    }
    run = next;
  }
}

void write_runs(const std::byte* tile, const BoxCopy& copy, const File& file, Buffer& window) {
  const std::int64_t length = copy.run_bytes();
  const std::int64_t runs = copy.run_count();
  for (std::int64_t run = 0; run < runs;) {
    const BoxCopy::RunPlace first = copy.run_place(run);
    std::int64_t next = run + 1;
    std::int64_t bytes = length;
    for (; next < runs && bytes + length <= window_bytes; ++next, bytes += length) {
      if (copy.run_place(next).to != first.to + bytes) break;
    }
    if (next == run + 1) {
      file.write(first.to, std::span(tile + first.from, size_of(length)));
    } else {
      make_window(window);
      for (std::int64_t i = run; i < next; ++i) {
        std::memcpy(window.data() + (i - run) * length, tile + copy.run_place(i).from, size_of(length));
      }
      file.write(first.to, std::span(window.data(), size_of(bytes)));
    }
    run = next;
  }
}

}  // namespace retile::files
