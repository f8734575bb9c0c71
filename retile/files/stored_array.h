// Arrays as files hold them: .npy files, arrays of Zarr v2 and v3, and those of HDF5, which are read only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/files/codec.h"
#include "retile/files/element_kind.h"
#include "retile/memory/tile_layout.h"
#include "retile/types/box.h"

namespace retile::files {

enum class Format { npy, zarr2, zarr3, hdf5 };

// The chunks of a file that holds several of them (the sharding codec of Zarr v3).
struct Shards {
  static constexpr std::int64_t index_entry_bytes = 16;  // of a chunk in the index: offset and length

  Shape shape;                  // elements of a shard: whole chunks
  bool index_at_start = false;  // of the file; else at its end
  bool index_has_checksum = true;

  bool operator==(const Shards&) const = default;
};

// The place of a chunk in a file that holds all chunks at places of its own choice.
struct StoredChunk {
  std::int64_t offset = -1;   // bytes; below 0 where the chunk is missing
  std::int64_t bytes = 0;     // encoded
  std::uint32_t skipped = 0;  // a bit for each codec that this chunk was not encoded by

  bool operator==(const StoredChunk&) const = default;
};

struct StoredArray {
  std::string path;  // of the file, or of the folder with the metadata
  Format format = Format::zarr3;
  Shape shape;  // dimensions may be 0
  Shape chunk;  // elements that are encoded together
  std::optional<Shards> shards;
  ElementKind element;
  DimensionOrder order;       // of the elements in a chunk, outermost first
  std::vector<Codec> codecs;  // of a chunk, in the order of encoding
  std::string key_prefix;     // of the names of files with chunks, such as "c/"
  char key_separator = '/';
  std::vector<std::string> dimension_names;    // empty where there are none
  std::optional<std::vector<std::byte>> fill;  // one element; nothing where it cannot be told
  std::int64_t data_offset = 0;                // of a .npy file, bytes
  std::string metadata;                        // as it was read, or as it is to be written
  // Where the chunks of an HDF5 array lie, by their numbers in row-major order.
  std::shared_ptr<const std::vector<StoredChunk>> places = nullptr;

  std::int64_t chunk_bytes() const;
  std::int64_t array_bytes() const;
  bool is_empty() const;
  // The elements that one file holds.
  const Shape& file_shape() const { return shards ? shards->shape : chunk; }
  // The name of the file with this chunk or shard, from the array's path.
  std::string file_key(const Shape& number) const;
  // The chunks of a shard along each dimension; all 1 where there are no shards.
  Shape chunks_per_shard() const;
};

DimensionOrder row_major(std::size_t rank);
DimensionOrder column_major(std::size_t rank);

// Why an array cannot be read: its bytes or the index of a shard do not fit in 63 bits, or its chunks are larger than
// their codecs encode. Empty where it can.
std::string size_fault_of(const StoredArray& array);

// The arrays and groups of a source, by their paths in it: "" where it is an array, or the outermost group.
struct StoreContents {
  struct NamedArray {
    std::string name;
    StoredArray array;
  };
  struct Group {
    std::string name;
    std::string attributes;  // a JSON object; empty where files of Zarr beside it say them
  };
  std::vector<NamedArray> arrays;
  std::vector<Group> groups;  // the outermost first; none where the source is an array
};

// The path of what has this name in a group; either may be "".
std::string path_in(const std::string& group, const std::string& name);

// A folder of Zarr or a .npy file. Throws InputError where it is no array that retile reads: the codec or type that it
// does not know is named.
StoredArray open_array(const std::string& path);

// True where the folder holds a group of Zarr.
bool is_group(const std::string& path);

// The file of a folder that has the metadata of an array or a group there; empty where there is none.
std::string metadata_file(const std::string& folder);

// The attributes of an array, a JSON object.
std::string attributes_text(const StoredArray& array);

// Properties of a target beyond its chunks. Those that are not given are the source's.
struct TargetOptions {
  std::optional<Format> format;
  std::optional<Shape> shards;
  std::optional<std::vector<Codec>> codecs;
};

// Describes the source's elements in other chunks, with the metadata. Throws InputError where the format cannot hold
// it.
StoredArray describe_target(const StoredArray& source, const std::string& path, const Shape& chunk,
                            const TargetOptions& options);

}  // namespace retile::files
