#include "retile/files/chunk_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "retile/base/arithmetic.h"
#include "retile/base/crc32c.h"
#include "retile/base/error.h"
#include "retile/copies/copy.h"
#include "retile/files/rechunk_plan.h"
#include "retile/files/runs.h"
#include "retile/grids/grid.h"

namespace retile::files {
namespace {

constexpr std::uint64_t missing = UINT64_MAX;  // in an index of a shard
constexpr std::int64_t checksum_bytes = 4;
static_assert(range_bytes == most_range_bytes + window_bytes);

std::size_t as_size(std::int64_t number) { return static_cast<std::size_t>(number); }

std::uint64_t read_number(const std::byte* bytes, std::size_t count) {
  std::uint64_t number = 0;
  for (std::size_t i = count; i-- > 0;) number = number << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  return number;
}

// The index of a shard, as it is read and as it is kept.
std::int64_t index_reading_bytes(const StoredArray& array) {
  return array.shards ? 3 * product(array.chunks_per_shard()) * Shards::index_entry_bytes : 0;
}

std::int64_t number_of(const StoredArray& array, const Shape& chunk) {
  Grid grid;
  for (std::size_t i = 0; i < chunk.size(); ++i) grid.push_back(divide_up(array.shape[i], array.chunk[i]));
  return tile_number(grid, chunk.data());
}

// The tile with this row-major number.
Shape tile_at(const Grid& grid, std::int64_t number) {
  Shape tile(grid.size());
  for (std::size_t i = grid.size(); i-- > 0; number /= grid[i]) tile[i] = number % grid[i];
  return tile;
}

bool is_row_major(const DimensionOrder& order) { return std::is_sorted(order.begin(), order.end()); }

}  // namespace

ChunkSource open_source(const StoredArray& array) {
  std::shared_ptr<const File> file;
  if (array.format == Format::npy || array.places != nullptr)
    file = std::make_shared<const File>(array.path, File::Mode::read);
  return {array, file, array.chunk};
}

bool is_cached(const ChunkSource& source) {
  if (source.file != nullptr) return source.file->is_cached();
  const StoredArray& array = source.array;
  const Shape& extents = array.shards ? array.shards->shape : array.chunk;
  Grid grid;
  for (std::size_t i = 0; i < extents.size(); ++i) grid.push_back(divide_up(array.shape[i], extents[i]));
  const std::int64_t files = product(grid);
  const std::int64_t samples = std::min<std::int64_t>(files, 16);
  std::int64_t absent = 0;
  std::int64_t there = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto file = File::open_if_there(array.path + "/" + array.file_key(tile_at(grid, i * files / samples)));
    if (file) ++(file->is_cached() ? there : absent);
  }
  return there >= absent;
}

// All chunks were written by one program: what the first one has, the others are taken to have. Blocks of another size
// are decoded as well, with more of them than planned.
std::optional<Shape> block_unit(const StoredArray& array) {
  if (array.places != nullptr) return std::nullopt;
  const CodecChain codecs(array.codecs, array.chunk_bytes());
  if (!codecs.has_blocks() || array.shards || !is_row_major(array.order) || array.is_empty()) return std::nullopt;
  const auto file = File::open_if_there(array.path + "/" + array.file_key(Shape(array.shape.size())));
  if (!file) return std::nullopt;
  std::byte header[blosc_header_bytes];
  file->read(0, header);
  const BloscBlocks blocks = blosc_blocks(header, file->path());
  if (blocks.element != array.element.bytes || blocks.block_bytes >= blocks.chunk_bytes) return std::nullopt;
  Shape unit(array.chunk.size(), 1);
  std::int64_t room = std::max<std::int64_t>(1, blocks.block_bytes / array.element.bytes);
  for (std::size_t i = unit.size(); i-- > 0;) {
    unit[i] = std::min(array.chunk[i], room);
    if (unit[i] < array.chunk[i]) break;
    room /= unit[i];
  }
  return unit == array.chunk ? std::nullopt : std::optional(unit);
}

std::int64_t unit_reading_bytes(const ChunkSource& source) {
  const StoredArray& array = source.array;
  const CodecChain codecs(array.codecs, array.chunk_bytes());
  const std::int64_t unit = product(source.unit) * array.element.bytes;
  const std::int64_t index = index_reading_bytes(array);
  if (codecs.is_plain()) return unit + index;
  if (source.unit == array.chunk) return unit + codecs.most_encoded_bytes() + codecs.decoding_bytes() + index;
  // Blocks: those that a unit meets, and the starts of all of them.
  // A unit has more than half of a block's bytes.
  return unit + 6 * unit + (1 << 18) + array.chunk_bytes() / unit * 8 + codecs.decoding_bytes();
}

std::int64_t range_reading_bytes(const StoredArray& array) { return range_bytes + index_reading_bytes(array); }

ChunkReader::ChunkReader(const ChunkSource& source)
    : source_(source), codecs_(source.array.codecs, source.array.chunk_bytes()) {}

Box ChunkReader::chunk_box(const Shape& chunk) const {
  Shape corner;
  for (std::size_t i = 0; i < chunk.size(); ++i) corner.push_back(tile_interval(chunk[i], source_.array.chunk[i]).lo);
  return box_at(corner, source_.array.chunk);
}

// --- Finding chunks.

void ChunkReader::open_file(const Shape& number) {
  if (open_number_ == number) return;
  open_number_.reset();
  if (open_file_ && source_.is_dropped) open_file_->drop();
  open_file_ = File::open_if_there(source_.array.path + "/" + source_.array.file_key(number));
  shard_index_.clear();
  open_number_ = number;
}

ChunkReader::Place ChunkReader::find(const Shape& chunk) {
  const StoredArray& array = source_.array;
  if (array.format == Format::npy) return {source_.file.get(), array.data_offset, array.chunk_bytes()};
  if (array.places != nullptr) return find_in_list(chunk);
  if (source_.file != nullptr) {
    return {source_.file.get(), number_of(array, chunk) * array.chunk_bytes(), array.chunk_bytes()};
  }
  if (array.shards) return find_in_shard(chunk);
  open_file(chunk);
  if (!open_file_) return {};
  return {&*open_file_, 0, open_file_->size()};
}

ChunkReader::Place ChunkReader::find_in_list(const Shape& chunk) const {
  const StoredChunk& stored = (*source_.array.places)[as_size(number_of(source_.array, chunk))];
  if (stored.offset < 0) return {};
  return {source_.file.get(), stored.offset, stored.bytes, stored.skipped};
}

ChunkReader::Place ChunkReader::find_in_shard(const Shape& chunk) {
  const StoredArray& array = source_.array;
  Shape number;
  Shape inside;
  const Grid grid = array.chunks_per_shard();
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    number.push_back(chunk[i] / grid[i]);
    inside.push_back(chunk[i] % grid[i]);
  }
  open_file(number);
  if (!open_file_) return {};
  if (shard_index_.empty()) {
    const std::int64_t entries = product(grid) * Shards::index_entry_bytes;
    const std::int64_t bytes = entries + (array.shards->index_has_checksum ? checksum_bytes : 0);
    const std::int64_t size = open_file_->size();
    if (size < bytes)
      throw RuntimeError(fmt::format("'{}' is damaged: it is shorter than its index", open_file_->path()));
    std::vector<std::byte> index(as_size(bytes));
    open_file_->read(array.shards->index_at_start ? 0 : size - bytes, index);
    if (array.shards->index_has_checksum &&
        crc32c(std::span(index).first(as_size(entries))) != read_number(index.data() + entries, checksum_bytes)) {
      throw RuntimeError(fmt::format("'{}' is damaged: its index has another checksum", open_file_->path()));
    }
    for (std::int64_t i = 0; i < entries; i += Shards::index_entry_bytes / 2)
      shard_index_.push_back(read_number(index.data() + i, Shards::index_entry_bytes / 2));
  }
  const std::size_t entry = 2 * as_size(tile_number(grid, inside.data()));
  const std::uint64_t offset = shard_index_[entry];
  const std::uint64_t bytes = shard_index_[entry + 1];
  if (offset == missing && bytes == missing) return {};
  const auto size = static_cast<std::uint64_t>(open_file_->size());
  if (offset > size || bytes > size - offset)
    throw RuntimeError(fmt::format("'{}' is damaged: its index leads beyond its end", open_file_->path()));
  return {&*open_file_, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes)};
}

void ChunkReader::require_size(const Place& place) const {
  if (place.bytes == source_.array.chunk_bytes()) return;
  throw RuntimeError(fmt::format("'{}' is damaged: it has {} bytes instead of {}", place.file->path(), place.bytes,
                                 source_.array.chunk_bytes()));
}

// --- Reading.

// `offset` counts from the place's.
void ChunkReader::read_bytes(const Place& place, std::int64_t offset, std::span<std::byte> out) const {
  source_.is_dropped ? place.file->read_once(place.offset + offset, out) : place.file->read(place.offset + offset, out);
}

ReadElements ChunkReader::fill(const Box& box) {
  const StoredArray& array = source_.array;
  if (!array.fill) {
    throw RuntimeError(fmt::format("'{}' lacks chunks, and the fill value of its type is not known", array.path));
  }
  const std::size_t bytes = as_size(volume(box) * array.element.bytes);
  if (decoded_.size() < bytes) decoded_ = Buffer(bytes);
  for (std::size_t i = 0; i < bytes; i += array.fill->size()) {
    std::memcpy(decoded_.data() + i, array.fill->data(), array.fill->size());
  }
  return {TileLayout(box), decoded_.data(), true};
}

ReadElements ChunkReader::read_unit(const Box& unit) {
  const StoredArray& array = source_.array;
  Shape chunk;
  for (std::size_t i = 0; i < unit.lo.size(); ++i) chunk.push_back(unit.lo[i] / array.chunk[i]);
  const Place place = find(chunk);
  if (place.file == nullptr) return fill(unit);
  const std::size_t bytes = as_size(volume(unit) * array.element.bytes);
  if (decoded_.size() < bytes) decoded_ = Buffer(bytes);
  const std::span<std::byte> decoded(decoded_.data(), bytes);
  const TileLayout layout(unit, packed_strides(unit, array.element.bytes, array.order));
  if (codecs_.is_plain()) {
    require_size(place);
    read_bytes(place, 0, decoded);
  } else if (source_.unit != array.chunk) {
    read_blocks(place, chunk_box(chunk), unit);
  } else {
    decode(place, decoded);
  }
  return {layout, decoded_.data(), false};
}

void ChunkReader::decode(const Place& place, std::span<std::byte> decoded) {
  if (place.bytes > codecs_.most_encoded_bytes()) {
    throw RuntimeError(fmt::format("'{}' is damaged: it has {} bytes for a chunk of {}", place.file->path(),
                                   place.bytes, decoded.size()));
  }
  if (encoded_.size() < as_size(place.bytes)) encoded_ = Buffer(as_size(codecs_.most_encoded_bytes()));
  const std::span<std::byte> encoded(encoded_.data(), as_size(place.bytes));
  read_bytes(place, 0, encoded);
  if (place.skipped == 0) return codecs_.decode(encoded, decoded, place.file->path());
  std::vector<Codec> rest;
  for (std::size_t i = 0; i < source_.array.codecs.size(); ++i) {
    if ((place.skipped >> i & 1U) == 0) rest.push_back(source_.array.codecs[i]);
  }
  if (rest.empty()) {
    require_size(place);
    std::memcpy(decoded.data(), encoded.data(), decoded.size());
    return;
  }
  CodecChain(std::move(rest), source_.array.chunk_bytes()).decode(encoded, decoded, place.file->path());
}

// The header and the blocks that hold the unit, put one after the other as if there were no others.
void ChunkReader::read_blocks(const Place& place, const Box& chunk, const Box& unit) {
  const std::string& name = place.file->path();
  std::byte header[blosc_header_bytes];
  place.file->read(0, header);
  const BloscBlocks blocks = blosc_blocks(header, name);
  const std::int64_t element = source_.array.element.bytes;
  if (blocks.chunk_bytes != source_.array.chunk_bytes() || blocks.element != element ||
      blocks.encoded_bytes != place.bytes || place.bytes > codecs_.most_encoded_bytes()) {
    throw RuntimeError(fmt::format("'{}' is damaged: it is no chunk that blosc encoded", name));
  }
  const BoxCopy whole(TileLayout(chunk), TileLayout(unit), unit, element);  // units are runs of their chunks
  const std::int64_t begin = whole.run_place(0).from;
  const std::int64_t bytes = volume(unit) * element;
  const std::span<std::byte> part(decoded_.data(), as_size(bytes));
  if (blocks.is_copy) return place.file->read(blosc_header_bytes + begin, part);
  const auto count = as_size(blocks.blocks());
  std::vector<std::byte> table(count * 4);
  place.file->read(blosc_header_bytes, table);
  std::vector<std::int64_t> starts(count);
  for (std::size_t i = 0; i < count; ++i) starts[i] = static_cast<std::int64_t>(read_number(table.data() + 4 * i, 4));
  std::vector<std::int64_t> ends = starts;  // of all blocks, in the order of the file
  std::sort(ends.begin(), ends.end());
  ends.push_back(blocks.encoded_bytes);
  std::int64_t next = blosc_header_bytes + static_cast<std::int64_t>(table.size());
  const std::int64_t first = begin / blocks.block_bytes;
  const std::int64_t last = (begin + bytes - 1) / blocks.block_bytes;
  const std::int64_t most_block = blocks.block_bytes + blocks.block_bytes / 128 + 4096;
  const std::int64_t room = next + (last - first + 1) * most_block;
  if (encoded_.size() < as_size(room)) encoded_ = Buffer(as_size(room));
  for (std::int64_t block = first; block <= last; ++block) {
    const std::int64_t start = starts[as_size(block)];
    const std::int64_t length = *std::upper_bound(ends.begin(), ends.end() - 1, start) - start;
    if (start < blosc_header_bytes || length <= 0 || length > most_block || start + length > blocks.encoded_bytes) {
      throw RuntimeError(fmt::format("'{}' is damaged: it is no chunk that blosc encoded", name));
    }
    place.file->read(start, std::span(encoded_.data() + next, as_size(length)));
    for (std::size_t i = 0; i < 4; ++i) table[as_size(block) * 4 + i] = static_cast<std::byte>(next >> 8 * i & 0xFF);
    next += length;
  }
  // To the decoder, the bytes end where those that were read do.
  for (std::size_t i = 0; i < 4; ++i) header[12 + i] = static_cast<std::byte>(next >> 8 * i & 0xFF);
  std::memcpy(encoded_.data(), header, sizeof header);
  std::memcpy(encoded_.data() + sizeof header, table.data(), table.size());
  decode_blosc_part({encoded_.data(), as_size(next)}, begin, part, name);
}

ReadElements ChunkReader::read_range(const Box& box) {
  const StoredArray& array = source_.array;
  Shape chunk;
  for (std::size_t i = 0; i < box.lo.size(); ++i) chunk.push_back(box.lo[i] / array.chunk[i]);
  const Place place = find(chunk);
  if (place.file == nullptr) return fill(box);
  require_size(place);
  const std::size_t bytes = as_size(volume(box) * array.element.bytes);
  if (decoded_.size() < bytes) decoded_ = Buffer(std::max(bytes, as_size(most_range_bytes)));
  TileLayout layout(box, packed_strides(box, array.element.bytes, array.order));
  const Box stored = chunk_box(chunk);
  const TileLayout from(stored, packed_strides(stored, array.element.bytes, array.order), place.offset);
  read_runs(*place.file, BoxCopy(from, layout, box, array.element.bytes), decoded_.data(), window_,
            source_.is_dropped ? Reads::once : Reads::again);
  return {std::move(layout), decoded_.data(), false};
}

}  // namespace retile::files
