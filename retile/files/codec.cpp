#include "retile/files/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "retile/base/crc32c.h"
#include "retile/base/error.h"
#include "retile/base/names.h"

#ifdef RETILE_HAS_BLOSC
#include <blosc.h>
#endif
#ifdef RETILE_HAS_ZSTD
#define ZSTD_STATIC_LINKING_ONLY  // what a context takes
#include <zstd.h>
#endif
#ifdef RETILE_HAS_LZ4
#include <lz4.h>
#endif
#ifdef RETILE_HAS_ZLIB
#include <zlib.h>
#endif

namespace retile::files {
namespace {

constexpr Names<CodecKind, 7> names{{"shuffle", "blosc", "zstd", "lz4", "zlib", "gzip", "crc32c"}};
constexpr std::int64_t crc_bytes = 4;
constexpr std::int64_t lz4_header = 4;  // the size of the chunk, as numcodecs writes it
// What encoders write at most for each byte, and beside it: the largest of their own bounds.
constexpr std::int64_t bound_divisor = 128;
constexpr std::int64_t bound_extra = 1 << 12;
constexpr std::int64_t most_block_bytes = 4 << 20;  // of blosc, where it chooses them

using Bytes = std::span<const std::byte>;

[[noreturn]] void fail_damaged(const std::string& name, CodecKind kind) {
  throw RuntimeError(fmt::format("'{}' is damaged: it is no chunk that {} encoded", name, name_of(kind)));
}

std::uint32_t read_word(Bytes bytes) {
  std::uint32_t word = 0;
  for (std::size_t i = 4; i-- > 0;) word = word << 8U | std::to_integer<std::uint32_t>(bytes[i]);
  return word;
}

void write_word(std::uint32_t word, std::byte* out) {
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(word >> 8U * i & 0xFFU);
}

// --- Shuffling: the first bytes of all elements, then the second ones and so on.

void shuffle(Bytes from, std::span<std::byte> to, std::size_t element) {
  const std::size_t count = from.size() / element;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < element; ++j) to[j * count + i] = from[i * element + j];
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(count * element), from.end(),
            to.begin() + static_cast<std::ptrdiff_t>(count * element));
}

void unshuffle(Bytes from, std::span<std::byte> to, std::size_t element) {
  const std::size_t count = from.size() / element;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < element; ++j) to[i * element + j] = from[j * count + i];
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(count * element), from.end(),
            to.begin() + static_cast<std::ptrdiff_t>(count * element));
}

// --- Compressors. Each returns whether `out` was filled, or how many bytes it wrote; 0 where that failed.

#ifdef RETILE_HAS_ZLIB

bool inflate_all(Bytes in, std::span<std::byte> out) {
  z_stream stream{};
  constexpr int either_header = 15 + 32;  // zlib's or gzip's
  if (inflateInit2(&stream, either_header) != Z_OK) return false;
  // NOLINTNEXTLINE(*-cast): zlib does not write to its input
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  const bool is_whole = result == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return is_whole;
}

std::size_t deflate_all(const Codec& codec, Bytes in, std::span<std::byte> out) {
  z_stream stream{};
  constexpr int memory_level = 8;
  const int window = codec.kind == CodecKind::gzip ? 15 + 16 : 15;
  if (deflateInit2(&stream, codec.level, Z_DEFLATED, window, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
  // NOLINTNEXTLINE(*-cast): zlib does not write to its input
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  const std::size_t written = out.size() - stream.avail_out;
  deflateEnd(&stream);
  return result == Z_STREAM_END ? written : 0;
}

#else

bool inflate_all(Bytes, std::span<std::byte>) { return false; }
std::size_t deflate_all(const Codec&, Bytes, std::span<std::byte>) { return 0; }

#endif

#ifdef RETILE_HAS_BLOSC

bool blosc_decode(Bytes in, std::span<std::byte> out) {
  std::size_t bytes = 0;
  if (blosc_cbuffer_validate(in.data(), in.size(), &bytes) != 0 || bytes != out.size()) return false;
  return blosc_decompress_ctx(in.data(), out.data(), out.size(), 1) == static_cast<int>(out.size());
}

std::size_t blosc_encode(const Codec& codec, Bytes in, std::span<std::byte> out) {
  const int written =
      blosc_compress_ctx(codec.level, codec.shuffle, static_cast<std::size_t>(codec.element), in.size(), in.data(),
                         out.data(), out.size(), codec.inner.c_str(), static_cast<std::size_t>(codec.block), 1);
  return written > 0 ? static_cast<std::size_t>(written) : 0;
}

#else

bool blosc_decode(Bytes, std::span<std::byte>) { return false; }
std::size_t blosc_encode(const Codec&, Bytes, std::span<std::byte>) { return 0; }

#endif

#ifdef RETILE_HAS_ZSTD

// Memory of an encoder for this many bytes.
std::int64_t zstd_context_bytes(int level, std::int64_t bytes) {
  const ZSTD_compressionParameters parameters = ZSTD_getCParams(level, static_cast<unsigned long long>(bytes), 0);
  return static_cast<std::int64_t>(ZSTD_estimateCCtxSize_usingCParams(parameters));
}

bool zstd_decode(Bytes in, std::span<std::byte> out) {
  return ZSTD_decompress(out.data(), out.size(), in.data(), in.size()) == out.size();
}

std::size_t zstd_encode(const Codec& codec, Bytes in, std::span<std::byte> out) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (context == nullptr) return 0;
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, codec.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, codec.checksum ? 1 : 0);
  const std::size_t written = ZSTD_compress2(context, out.data(), out.size(), in.data(), in.size());
  ZSTD_freeCCtx(context);
  return ZSTD_isError(written) != 0U ? 0 : written;
}

#else

std::int64_t zstd_context_bytes(int, std::int64_t) { return 66 << 20; }  // the most for one of blosc's blocks
bool zstd_decode(Bytes, std::span<std::byte>) { return false; }
std::size_t zstd_encode(const Codec&, Bytes, std::span<std::byte>) { return 0; }

#endif

#ifdef RETILE_HAS_LZ4

bool lz4_decode(Bytes in, std::span<std::byte> out) {
  if (in.size() < lz4_header || read_word(in) != out.size()) return false;
  const Bytes data = in.subspan(lz4_header);
  return LZ4_decompress_safe(reinterpret_cast<const char*>(data.data()), reinterpret_cast<char*>(out.data()),
                             static_cast<int>(data.size()),
                             static_cast<int>(out.size())) == static_cast<int>(out.size());
}

std::size_t lz4_encode(const Codec& codec, Bytes in, std::span<std::byte> out) {
  write_word(static_cast<std::uint32_t>(in.size()), out.data());
  const std::span<std::byte> room = out.subspan(lz4_header);
  const int written = LZ4_compress_fast(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(room.data()),
                                        static_cast<int>(in.size()), static_cast<int>(room.size()), codec.level);
  return written > 0 ? static_cast<std::size_t>(written) + lz4_header : 0;
}

#else

bool lz4_decode(Bytes, std::span<std::byte>) { return false; }
std::size_t lz4_encode(const Codec&, Bytes, std::span<std::byte>) { return 0; }

#endif

bool decompress(const Codec& codec, Bytes in, std::span<std::byte> out) {
  switch (codec.kind) {
    case CodecKind::blosc:
      return blosc_decode(in, out);
    case CodecKind::zstd:
      return zstd_decode(in, out);
    case CodecKind::lz4:
      return lz4_decode(in, out);
    case CodecKind::zlib:
    case CodecKind::gzip:
      return inflate_all(in, out);
    case CodecKind::shuffle:
    case CodecKind::crc32c:
      break;
  }
  return false;
}

std::size_t compress(const Codec& codec, Bytes in, std::span<std::byte> out) {
  switch (codec.kind) {
    case CodecKind::blosc:
      return blosc_encode(codec, in, out);
    case CodecKind::zstd:
      return zstd_encode(codec, in, out);
    case CodecKind::lz4:
      return lz4_encode(codec, in, out);
    case CodecKind::zlib:
    case CodecKind::gzip:
      return deflate_all(codec, in, out);
    case CodecKind::shuffle:
    case CodecKind::crc32c:
      break;
  }
  return 0;
}

bool has_shuffle(const std::vector<Codec>& codecs) {
  return std::any_of(codecs.begin(), codecs.end(), [](const Codec& codec) { return codec.kind == CodecKind::shuffle; });
}

// The levels that an encoder knows.
struct Levels {
  int least;
  int most;
};
Levels levels_of(CodecKind kind) {
  switch (kind) {
    case CodecKind::blosc:
      return {0, 9};
    case CodecKind::zstd:
      return {-(1 << 17), 22};
    case CodecKind::zlib:
    case CodecKind::gzip:
      return {-1, 9};
    case CodecKind::lz4:
      return {0, 65537};
    case CodecKind::shuffle:
    case CodecKind::crc32c:
      break;
  }
  return {0, 0};
}

std::string settings_fault(const Codec& codec) {
  const Levels levels = levels_of(codec.kind);
  if (codec.level < levels.least || codec.level > levels.most) {
    return fmt::format("{} has no level {}: they are {} to {}", name_of(codec.kind), codec.level, levels.least,
                       levels.most);
  }
  if (codec.kind != CodecKind::blosc) return "";
  const std::array inner{"blosclz", "lz4", "lz4hc", "zlib", "zstd", "snappy"};
  if (std::find(inner.begin(), inner.end(), codec.inner) == inner.end())
    return fmt::format("blosc has no compressor '{}'", codec.inner);
  if (codec.shuffle < 0 || codec.shuffle > 2) return fmt::format("blosc has no shuffle {}", codec.shuffle);
  if (codec.element < 0) return fmt::format("blosc has no elements of {} bytes", codec.element);
  if (codec.block < 0 || codec.block > INT32_MAX) return fmt::format("blosc has no blocks of {} bytes", codec.block);
  return "";
}

}  // namespace

const char* name_of(CodecKind kind) { return names.of(kind); }

bool is_compressor(CodecKind kind) { return kind != CodecKind::shuffle && kind != CodecKind::crc32c; }

bool is_available(CodecKind kind) {
  // What the library was built with.
  std::vector<CodecKind> available{CodecKind::shuffle, CodecKind::crc32c};
#ifdef RETILE_HAS_BLOSC
  available.push_back(CodecKind::blosc);
#endif
#ifdef RETILE_HAS_ZSTD
  available.push_back(CodecKind::zstd);
#endif
#ifdef RETILE_HAS_LZ4
  available.push_back(CodecKind::lz4);
#endif
#ifdef RETILE_HAS_ZLIB
  available.insert(available.end(), {CodecKind::zlib, CodecKind::gzip});
#endif
  return std::find(available.begin(), available.end(), kind) != available.end();
}

std::int64_t most_chunk_bytes(CodecKind kind) {
  switch (kind) {
    case CodecKind::lz4:
      return 0x7E000000;  // LZ4_MAX_INPUT_SIZE
    case CodecKind::blosc:
    case CodecKind::zlib:
    case CodecKind::gzip:
      return INT32_MAX - 16;  // BLOSC_MAX_BUFFERSIZE; zlib counts in 32 bits
    case CodecKind::zstd:
    case CodecKind::shuffle:
    case CodecKind::crc32c:
      break;
  }
  return INT64_MAX;
}

std::string fault_of(const std::vector<Codec>& chain) {
  const Codec& codec = chain.back();
  std::string fault = !is_available(codec.kind) ? fmt::format("this retile was built without {}", name_of(codec.kind))
                                                : settings_fault(codec);
  if (!fault.empty()) return fault;
  const auto count = [&](auto is_one) { return std::count_if(chain.begin(), chain.end(), is_one); };
  const auto is_checksum = [](const Codec& one) { return one.kind == CodecKind::crc32c; };
  if (count([](const Codec& one) { return is_compressor(one.kind); }) > 1)
    return "a second compressor is not supported";
  if (count([](const Codec& one) { return one.kind == CodecKind::shuffle; }) > 1)
    return "a second shuffle is not supported";
  if (count(is_checksum) > 0 && !is_checksum(codec)) return "a checksum before other codecs is not supported";
  return "";
}

CodecChain::CodecChain(std::vector<Codec> codecs, std::int64_t chunk_bytes)
    : codecs_(std::move(codecs)), chunk_bytes_(chunk_bytes), most_encoded_(chunk_bytes) {
  for (const Codec& codec : codecs_) {
    if (is_compressor(codec.kind)) most_encoded_ += chunk_bytes / bound_divisor + bound_extra;
    if (codec.kind == CodecKind::crc32c) most_encoded_ += crc_bytes;
  }
}

std::int64_t CodecChain::decoding_bytes() const {
  std::int64_t bytes = has_shuffle(codecs_) ? chunk_bytes_ : 0;
  for (const Codec& codec : codecs_) {
    // Blosc's three blocks; the others' tables and windows.
    if (is_compressor(codec.kind))
      bytes += codec.kind == CodecKind::blosc ? 3 * std::min(chunk_bytes_, most_block_bytes) : 1 << 18;
  }
  return bytes;
}

std::int64_t CodecChain::encoding_bytes() const {
  std::int64_t bytes = decoding_bytes();
  for (const Codec& codec : codecs_) {
    if (codec.kind == CodecKind::zstd) bytes += zstd_context_bytes(codec.level, chunk_bytes_);
    // Of blosc's nine levels the last one is the highest of zstd, and the others are every other one.
    if (codec.inner == "zstd") {
      bytes += zstd_context_bytes(codec.level < 9 ? std::max(1, 2 * codec.level - 1) : levels_of(CodecKind::zstd).most,
                                  std::min(chunk_bytes_, most_block_bytes));
    }
  }
  return bytes;
}

void CodecChain::decode(Bytes encoded, std::span<std::byte> chunk, const std::string& name) {
  if (has_shuffle(codecs_) && between_.empty()) between_ = Buffer(static_cast<std::size_t>(chunk_bytes_));
  const std::span<std::byte> between(between_.data(), between_.size());
  Bytes current = encoded;
  for (std::size_t i = codecs_.size(); i-- > 0;) {
    const Codec& codec = codecs_[i];
    if (codec.kind == CodecKind::crc32c) {
      if (current.size() < crc_bytes) fail_damaged(name, codec.kind);
      const Bytes body = current.first(current.size() - crc_bytes);
      if (crc32c(body) != read_word(current.last(crc_bytes))) fail_damaged(name, codec.kind);
      current = body;
    } else if (codec.kind == CodecKind::shuffle) {
      if (current.size() != chunk.size()) fail_damaged(name, codec.kind);
      const std::span<std::byte> out = current.data() == between.data() ? chunk : between;
      unshuffle(current, out, static_cast<std::size_t>(codec.element));
      current = out;
    } else {
      const std::span<std::byte> out = has_shuffle(codecs_) ? between : chunk;
      if (!decompress(codec, current, out)) fail_damaged(name, codec.kind);
      current = out;
    }
  }
  if (current.size() != chunk.size()) {
    throw RuntimeError(
        fmt::format("'{}' is damaged: it has {} bytes instead of {}", name, current.size(), chunk.size()));
  }
  if (current.data() != chunk.data()) std::copy(current.begin(), current.end(), chunk.begin());
}

Bytes CodecChain::encode(Bytes chunk, std::span<std::byte> room) {
  if (has_shuffle(codecs_) && between_.empty()) between_ = Buffer(static_cast<std::size_t>(chunk_bytes_));
  const std::span<std::byte> between(between_.data(), between_.size());
  Bytes current = chunk;
  for (const Codec& codec : codecs_) {
    if (codec.kind == CodecKind::shuffle) {
      shuffle(current, between, static_cast<std::size_t>(codec.element));
      current = between;
    } else if (codec.kind == CodecKind::crc32c) {
      const std::uint32_t checksum = crc32c(current);
      if (current.data() != room.data()) std::copy(current.begin(), current.end(), room.begin());
      write_word(checksum, room.data() + current.size());
      current = room.first(current.size() + crc_bytes);
    } else {
      const std::size_t written = compress(codec, current, room);
      if (written == 0) throw RuntimeError(fmt::format("{} could not encode a chunk", name_of(codec.kind)));
      current = room.first(written);
    }
  }
  return current;
}

// --- Blocks of blosc.

BloscBlocks blosc_blocks(Bytes header, const std::string& name) {
  if (header.size() < static_cast<std::size_t>(blosc_header_bytes)) fail_damaged(name, CodecKind::blosc);
  constexpr unsigned copied = 2;
  BloscBlocks blocks;
  blocks.is_copy = (std::to_integer<unsigned>(header[2]) & copied) != 0;
  blocks.element = std::to_integer<std::int64_t>(header[3]);
  blocks.chunk_bytes = read_word(header.subspan(4));
  blocks.block_bytes = read_word(header.subspan(8));
  blocks.encoded_bytes = read_word(header.subspan(12));
  const bool is_sound = blocks.block_bytes > 0 && blocks.block_bytes <= blocks.chunk_bytes && blocks.element > 0;
  if (!is_sound) fail_damaged(name, CodecKind::blosc);
  return blocks;
}

void decode_blosc_part([[maybe_unused]] Bytes encoded, [[maybe_unused]] std::int64_t begin,
                       [[maybe_unused]] std::span<std::byte> part, const std::string& name) {
#ifdef RETILE_HAS_BLOSC
  const auto element = std::to_integer<std::int64_t>(encoded[3]);
  const int decoded = blosc_getitem(encoded.data(), static_cast<int>(begin / element),
                                    static_cast<int>(static_cast<std::int64_t>(part.size()) / element), part.data());
  if (decoded == static_cast<int>(part.size())) return;
#endif
  fail_damaged(name, CodecKind::blosc);
}

}  // namespace retile::files
