#include "retile/files/chunk_writer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/crc32c.h"
#include "retile/base/error.h"
#include "retile/grids/grid.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;

constexpr const char* unfinished = ".part";  // behind the name of a file that is not complete

// Folders of the file are made where they are absent.
File create_file(const std::string& path) {
  try {
    return {path, File::Mode::create};
  } catch (const RuntimeError&) {
    std::error_code ignored;
    if (!fs::create_directories(fs::path(path).parent_path(), ignored) && ignored) throw;
    return {path, File::Mode::create};
  }
}

void append(std::uint64_t number, std::vector<std::byte>& bytes, unsigned count) {
  for (unsigned i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(number >> 8U * i & 0xFFU));
}

struct ShardPlace {
  Shape shard;
  std::size_t inside = 0;  // number of the chunk in it
};

ShardPlace place_in_shard(const StoredArray& array, const Shape& chunk) {
  ShardPlace place;
  const Grid grid = array.chunks_per_shard();
  Shape inside;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    place.shard.push_back(chunk[i] / grid[i]);
    inside.push_back(chunk[i] % grid[i]);
  }
  place.inside = static_cast<std::size_t>(tile_number(grid, inside.data()));
  return place;
}

}  // namespace

ChunkTarget::ChunkTarget(StoredArray array, std::shared_ptr<const File> file)
    : array_(std::move(array)), file_(std::move(file)) {
  if (file_ != nullptr) return;
  fs::create_directories(array_.path);
  pending_.emplace(array_.path);
}

bool ChunkTarget::is_done(const Shape& chunk) const {
  if (file_ != nullptr) return false;
  return fs::exists(array_.path + "/" + array_.file_key(array_.shards ? place_in_shard(array_, chunk).shard : chunk));
}

void ChunkTarget::write(const Shape& chunk, std::span<const std::byte> encoded) {
  if (array_.format == Format::npy && file_ != nullptr) {
    // Slabs of rows: what is beyond the array is at their ends.
    std::int64_t first = 0;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const std::int64_t begin = chunk[i] * array_.chunk[i];
      first = first * array_.shape[i] + begin;
      count *= std::min(array_.chunk[i], array_.shape[i] - begin);
    }
    const std::int64_t bytes = array_.element.bytes;
    return file_->write(array_.data_offset + first * bytes, encoded.first(static_cast<std::size_t>(count * bytes)));
  }
  if (file_ != nullptr) {
    Grid grid;
    for (std::size_t i = 0; i < chunk.size(); ++i) grid.push_back(divide_up(array_.shape[i], array_.chunk[i]));
    return file_->write(tile_number(grid, chunk.data()) * array_.chunk_bytes(), encoded);
  }
  if (array_.shards) return write_to_shard(chunk, encoded);
  const std::string path = array_.path + "/" + array_.file_key(chunk);
  const File file = create_file(path + unfinished);
  file.write(0, encoded);
  pending_->add(file, path);
}

void ChunkTarget::leave_out(const Shape& chunk) {
  if (!array_.shards || file_ != nullptr) return;
  const Shape number = place_in_shard(array_, chunk).shard;
  {
    const std::lock_guard lock(mutex_);
    shard_of(number);
  }
  finish_in_shard(number);
}

// --- Shards. Their chunks are written one after the other as they come, and the index behind them.

std::int64_t ChunkTarget::chunks_in(const Shape& shard) const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < shard.size(); ++i) {
    const std::int64_t begin = shard[i] * array_.shards->shape[i];
    count *= divide_up(std::min(array_.shards->shape[i], array_.shape[i] - begin), array_.chunk[i]);
  }
  return count;
}

ChunkTarget::Shard& ChunkTarget::shard_of(const Shape& number) {
  const auto [found, is_new] = shards_.try_emplace(number);
  if (is_new) {
    const std::int64_t entries = 2 * product(array_.chunks_per_shard());
    found->second = {std::vector<std::uint64_t>(static_cast<std::size_t>(entries), UINT64_MAX), 0, chunks_in(number)};
    std::error_code ignored;  // what an interrupted run has left of it
    fs::remove(array_.path + "/" + array_.file_key(number) + unfinished, ignored);
  }
  return found->second;
}

void ChunkTarget::write_to_shard(const Shape& chunk, std::span<const std::byte> encoded) {
  const ShardPlace place = place_in_shard(array_, chunk);
  const std::string part = array_.path + "/" + array_.file_key(place.shard) + unfinished;
  std::int64_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    Shard& shard = shard_of(place.shard);
    if (shard.next == 0) create_file(part);
    offset = shard.next;
    shard.next += static_cast<std::int64_t>(encoded.size());
    shard.index[2 * place.inside] = static_cast<std::uint64_t>(offset);
    shard.index[2 * place.inside + 1] = encoded.size();
  }
  File file(part, File::Mode::update);
  file.write(offset, encoded);
  file.start_sync();
  file.close();
  finish_in_shard(place.shard);
}

void ChunkTarget::finish_in_shard(const Shape& number) {
  Shard complete;
  {
    const std::lock_guard lock(mutex_);
    const auto found = shards_.find(number);
    if (--found->second.lacks > 0) return;
    complete = std::move(found->second);
    shards_.erase(found);
  }
  if (complete.next == 0) return;  // fill values alone
  std::vector<std::byte> index;
  index.reserve(complete.index.size() * 8 + 4);
  for (const std::uint64_t entry : complete.index) append(entry, index, 8);
  append(crc32c(index), index, 4);
  const std::string path = array_.path + "/" + array_.file_key(number);
  const File file(path + unfinished, File::Mode::update);
  file.write(complete.next, index);
  pending_->add(file, path);
}

std::int64_t encoding_bytes(const StoredArray& array) {
  const CodecChain codecs(array.codecs, array.chunk_bytes());
  const std::int64_t index = array.shards ? product(array.chunks_per_shard()) * Shards::index_entry_bytes : 0;
  return index + (codecs.is_plain() ? 0 : codecs.most_encoded_bytes() + codecs.encoding_bytes());
}

std::int64_t index_bytes(const StoredArray& array) {
  if (!array.shards) return 0;
  constexpr std::int64_t beside = 256;  // of a shard, for its number and its place among the others
  std::int64_t shards = 1;
  for (std::size_t i = 0; i < array.shape.size(); ++i) shards *= divide_up(array.shape[i], array.shards->shape[i]);
  return shards * (product(array.chunks_per_shard()) * Shards::index_entry_bytes + beside);
}

}  // namespace retile::files
