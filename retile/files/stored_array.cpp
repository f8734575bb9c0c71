#include "retile/files/stored_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/files/file.h"
#include "retile/files/python_json.h"
#include "retile/files/zarr2.h"
#include "retile/files/zarr3.h"
#include "retile/files/zarr_metadata.h"
#include "retile/plan/text.h"
#include "retile/types/npy_header.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t npy_slab_bytes = 1 << 20;  // of rows of a .npy file that are written together
constexpr std::int64_t most_chunks = 1 << 26;     // along a dimension of a target

// --- .npy files.

StoredArray open_npy(const std::string& path) {
  const auto file = File::open_if_there(path);
  if (!file) throw InputError(fmt::format("cannot read '{}': it does not exist", path), {});
  const std::int64_t size = file->size();
  const NpyDescription description =
      read_npy_description(path, size, [&](std::int64_t offset, std::span<std::byte> out) { file->read(offset, out); });
  const auto element = parse_numpy_type(description.type);
  if (!element) {
    throw InputError(fmt::format("{}: elements of type '{}' are not known", path,
                                 description.type == "[" ? "records" : description.type),
                     {});
  }
  require_npy_data(description, element->bytes, path, size);
  StoredArray array;
  array.path = path;
  array.format = Format::npy;
  array.shape = array.chunk = description.shape;
  array.element = *element;
  const std::size_t rank = array.shape.size();
  array.order = description.fortran_order ? column_major(rank) : row_major(rank);
  array.fill = std::vector<std::byte>(static_cast<std::size_t>(element->bytes));
  array.data_offset = description.data_offset;
  array.metadata = fmt::format("{} {} {}", description.type, description.fortran_order, fmt::join(array.shape, ","));
  return array;
}

// As many whole rows as are worth a write.
Shape npy_slab(const Shape& shape, std::int64_t element_bytes) {
  Shape slab(shape.size(), 1);
  std::int64_t room = std::max<std::int64_t>(1, npy_slab_bytes / element_bytes);
  for (std::size_t i = shape.size(); i-- > 0;) {
    slab[i] = std::max<std::int64_t>(1, std::min(shape[i], room));
    if (slab[i] < shape[i]) break;
    room /= slab[i];
  }
  return slab;
}

// --- Targets.

// Filters of HDF5 are no codecs of Zarr's: what was compressed is compressed again, with elements shuffled.
std::vector<Codec> codecs_from_hdf5(const StoredArray& source) {
  const auto is_packed = [](const Codec& codec) { return is_compressor(codec.kind); };
  if (std::none_of(source.codecs.begin(), source.codecs.end(), is_packed)) return {};
  if (is_available(CodecKind::blosc)) return {{CodecKind::blosc, 5, source.element.bytes, "zstd", 1}};
  return {{is_available(CodecKind::zstd) ? CodecKind::zstd : CodecKind::gzip, 3}};
}

// Codecs count the bytes of a chunk in few bits; files are counted one by one.
void require_encodable(const StoredArray& target) {
  const auto chunk = checked_product(target.chunk);
  const auto bytes = chunk ? checked_multiply(*chunk, target.element.bytes) : std::nullopt;
  for (const Codec& codec : target.codecs) {
    if (bytes && *bytes <= most_chunk_bytes(codec.kind)) continue;
    throw InputError(fmt::format("{} encodes chunks of at most {} bytes", name_of(codec.kind),
                                 group_digits(most_chunk_bytes(codec.kind))),
                     "smaller chunks fit, and --codec none has no such limit");
  }
  for (std::size_t i = 0; i < target.shape.size(); ++i) {
    if (divide_up(target.shape[i], target.chunk[i]) <= most_chunks) continue;
    throw InputError(fmt::format("dimension {} would have more than {} chunks", i, group_digits(most_chunks)),
                     "larger chunks are fewer");
  }
}

void describe_zarr(const StoredArray& source, const TargetOptions& options, StoredArray& target) {
  const char* version = target.format == Format::zarr2 ? "Zarr v2" : "Zarr v3";
  const bool is_same = source.format == target.format;
  const bool has_type =
      target.format == Format::zarr2 ? !source.element.numpy.empty() : zarr3_name(source.element).has_value();
  if (!is_same && !has_type) {
    throw InputError(fmt::format("{}: {} has no type '{}'", source.path, version, source.element.numpy), {});
  }
  target.key_prefix = is_same                          ? source.key_prefix
                      : target.format == Format::zarr2 ? ""
                      : target.shape.empty()           ? "c"
                                                       : "c/";
  target.key_separator = is_same ? source.key_separator : target.format == Format::zarr2 ? '.' : '/';
  if (options.codecs) target.codecs = *options.codecs;
  for (Codec& codec : target.codecs) codec.element = codec.element == 0 ? target.element.bytes : codec.element;
  if (options.shards) {
    if (target.format == Format::zarr2) throw InputError("Zarr v2 has no shards", "--format zarr3 has them");
    const bool divides = options.shards->size() == target.chunk.size() &&
                         std::equal(target.chunk.begin(), target.chunk.end(), options.shards->begin(),
                                    [](std::int64_t chunk, std::int64_t shard) { return shard % chunk == 0; });
    if (!divides) throw InputError("shards must be whole chunks in every dimension", {});
    target.shards = Shards{*options.shards};
  }
  require_encodable(target);
  target.metadata = target.format == Format::zarr2 ? write_zarr2(source, target) : write_zarr3(source, target);
}

}  // namespace

DimensionOrder row_major(std::size_t rank) {
  DimensionOrder order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

DimensionOrder column_major(std::size_t rank) {
  DimensionOrder order = row_major(rank);
  std::reverse(order.begin(), order.end());
  return order;
}

std::string size_fault_of(const StoredArray& array) {
  const auto bytes_of = [&](const Shape& shape) {
    const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    const auto elements = is_empty ? 0 : checked_product(shape);
    return elements ? checked_multiply(*elements, array.element.bytes) : std::nullopt;
  };
  Shape stored = array.file_shape();
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::int64_t files = divide_up(array.shape[i], stored[i]);
    stored[i] = checked_multiply(std::max<std::int64_t>(1, files), stored[i]).value_or(INT64_MAX);
  }
  if (!bytes_of(stored)) return "the array's bytes do not fit in 63 bits";
  constexpr std::int64_t index_bytes = 64;  // of a chunk in an index and its copies
  if (!checked_multiply(product(array.chunks_per_shard()), index_bytes)) {
    return "the index of a shard does not fit in 63 bits";
  }
  for (const Codec& codec : array.codecs) {
    if (array.chunk_bytes() <= most_chunk_bytes(codec.kind)) continue;
    return fmt::format("chunks of {} bytes are more than {} encodes", array.chunk_bytes(), name_of(codec.kind));
  }
  return "";
}

std::int64_t StoredArray::chunk_bytes() const { return product(chunk) * element.bytes; }

bool StoredArray::is_empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

std::int64_t StoredArray::array_bytes() const { return is_empty() ? 0 : product(shape) * element.bytes; }

std::string StoredArray::file_key(const Shape& number) const {
  if (number.empty()) return format == Format::zarr2 || key_prefix.empty() ? "0" : "c";
  return key_prefix + fmt::format("{}", fmt::join(number, std::string(1, key_separator)));
}

Shape StoredArray::chunks_per_shard() const {
  Shape counts(chunk.size(), 1);
  for (std::size_t i = 0; i < chunk.size() && shards; ++i) counts[i] = shards->shape[i] / chunk[i];
  return counts;
}

std::string metadata_file(const std::string& folder) {
  for (const char* name : {"/zarr.json", "/.zarray", "/.zgroup"}) {
    if (fs::exists(folder + name)) return folder + name;
  }
  return "";
}

bool is_group(const std::string& path) {
  const std::string file = metadata_file(path);
  if (!file.ends_with("/zarr.json")) return file.ends_with("/.zgroup");
  const SourceText text{file, hide_words(read_text(file))};
  const JsonValue value = parse_json(text);
  return JsonReader(text, value, "the metadata").member("node_type").string() == "group";
}

std::string path_in(const std::string& group, const std::string& name) {
  return group.empty() ? name : name.empty() ? group : group + "/" + name;
}

StoredArray open_array(const std::string& path) {
  if (!fs::exists(path)) throw InputError(fmt::format("cannot read '{}': it does not exist", path), {});
  if (!fs::is_directory(path)) return open_npy(path);
  const std::string file = metadata_file(path);
  if (file.ends_with("/.zarray")) return open_zarr2(path);
  if (file.ends_with("/zarr.json") && !is_group(path)) return open_zarr3(path);
  throw InputError(fmt::format("'{}' is no array: it has no .zarray and no zarr.json", path),
                   "a store of Zarr is a folder with one of them");
}

StoredArray describe_target(const StoredArray& source, const std::string& path, const Shape& chunk,
                            const TargetOptions& options) {
  StoredArray target = source;
  target.path = path;
  target.order = row_major(source.shape.size());
  target.shards.reset();
  target.data_offset = 0;
  target.places.reset();
  const bool is_zarr = source.format == Format::zarr2 || source.format == Format::zarr3;
  target.format = options.format.value_or(is_zarr ? source.format : Format::zarr3);
  if (source.format == Format::hdf5) target.codecs = codecs_from_hdf5(source);
  if (target.format == Format::npy) {
    if (source.element.numpy.empty())
      throw InputError(fmt::format("{}: a .npy file has no such type of elements", source.path), {});
    target.chunk = npy_slab(target.shape, target.element.bytes);
    target.codecs.clear();
    target.metadata = npy_header_text(numpy_type(target.element), target.shape);
    target.data_offset = static_cast<std::int64_t>(target.metadata.size());
    return target;
  }
  target.chunk = chunk;
  describe_zarr(source, options, target);
  return target;
}

}  // namespace retile::files
