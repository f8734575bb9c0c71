// Codecs of chunks: what stands between the elements of a chunk and the bytes in its file. Compression is done by the
// codecs' own libraries; those that were absent when retile was built are refused with their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "retile/memory/buffer.h"

namespace retile::files {

enum class CodecKind { shuffle, blosc, zstd, lz4, zlib, gzip, crc32c };

struct Codec {
  CodecKind kind = CodecKind::zstd;
  int level = 0;             // of compression; acceleration of lz4
  std::int64_t element = 1;  // bytes of an element, for shuffle and blosc
  std::string inner = {};    // compressor inside blosc
  int shuffle = 0;           // of blosc: 0 none, 1 bytes, 2 bits
  std::int64_t block = 0;    // bytes of blosc's blocks; 0: its own choice
  bool checksum = false;     // of zstd

  bool operator==(const Codec&) const = default;
};

const char* name_of(CodecKind kind);
// Whether its library was there when retile was built.
bool is_available(CodecKind kind);
bool is_compressor(CodecKind kind);
// The most bytes of a chunk that it can encode.
std::int64_t most_chunk_bytes(CodecKind kind);

// The fault of a chain, in words; empty where there is none. The last codec is the only one that is looked
// at by itself, so that chains are checked as they grow.
std::string fault_of(const std::vector<Codec>& chain);

// Encodes and decodes chunks of one size. A thread has one of its own: it keeps the memory that it needs.
class CodecChain {
 public:
  // In the order of encoding: at most one shuffle, one compressor, and checksums behind it.
  CodecChain(std::vector<Codec> codecs, std::int64_t chunk_bytes);

  bool is_plain() const { return codecs_.empty(); }
  // Bytes that an encoded chunk has at most.
  std::int64_t most_encoded_bytes() const { return most_encoded_; }
  // Memory that decoding and encoding take beside the chunk and its encoded bytes.
  std::int64_t decoding_bytes() const;
  std::int64_t encoding_bytes() const;

  // The chunk's bytes; throws RuntimeError where `encoded` is damaged: `name` is its file.
  void decode(std::span<const std::byte> encoded, std::span<std::byte> chunk, const std::string& name);
  // The encoded bytes, valid until the next call. `room` has most_encoded_bytes().
  std::span<const std::byte> encode(std::span<const std::byte> chunk, std::span<std::byte> room);

  // Parts of a chunk can be decoded where the chain is blosc alone.
  bool has_blocks() const { return codecs_.size() == 1 && codecs_[0].kind == CodecKind::blosc; }

 private:
  std::vector<Codec> codecs_;
  std::int64_t chunk_bytes_;
  std::int64_t most_encoded_;
  Buffer between_;  // for chains with a shuffle
};

// The blocks of a blosc chunk.
struct BloscBlocks {
  std::int64_t chunk_bytes = 0;    // decoded
  std::int64_t encoded_bytes = 0;  // of the whole chunk
  std::int64_t block_bytes = 0;    // decoded bytes of a block; the last one may be shorter
  std::int64_t element = 1;        // bytes
  bool is_copy = false;            // stored as it is

  std::int64_t blocks() const { return (chunk_bytes + block_bytes - 1) / block_bytes; }
};
constexpr std::int64_t blosc_header_bytes = 16;
BloscBlocks blosc_blocks(std::span<const std::byte> header, const std::string& name);
// Decodes whole elements from `begin` on: `encoded` has the header, the starts of blocks, and the blocks that hold
// them.
void decode_blosc_part(std::span<const std::byte> encoded, std::int64_t begin, std::span<std::byte> part,
                       const std::string& name);

}  // namespace retile::files
