#include "retile/files/stored_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/base/nearest_name.h"
#include "retile/files/file.h"
#include "retile/files/hdf5.h"
#include "retile/files/python_json.h"
#include "retile/types/npy_header.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t npy_slab_bytes = 1 << 20;  // of rows of a .npy file that are written together

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

// --- What both versions of Zarr share.

Shape read_shape(const JsonReader& reader) {
  Shape shape;
  for (const JsonReader& element : reader.elements()) shape.push_back(element.count());
  return shape;
}

Shape read_chunk(const JsonReader& reader, std::size_t rank) {
  Shape chunk;
  for (const JsonReader& element : reader.elements()) chunk.push_back(element.size());
  if (chunk.size() != rank)
    reader.fail(fmt::format("{} has {} sizes for {} dimensions", reader.name(), chunk.size(), rank));
  return chunk;
}

std::int64_t integer_or(const JsonReader& reader, const char* key, std::int64_t otherwise) {
  return reader.has(key) ? reader.member(key).integer() : otherwise;
}

bool is_null(const JsonReader& reader) { return reader.value().as<std::nullptr_t>() != nullptr; }

Codec require_available(const JsonReader& place, Codec codec) {
  if (!is_available(codec.kind)) {
    place.fail(fmt::format("this retile was built without {}", name_of(codec.kind)));
  }
  return codec;
}

void require_sizes(const StoredArray& array, const JsonReader& place) {
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
  if (!bytes_of(stored)) place.fail("the array's bytes do not fit in 63 bits");
}

// --- Zarr v2.

Codec read_zarr2_codec(const JsonReader& reader, const ElementKind& element) {
  const JsonReader id = reader.member("id");
  Codec codec;
  codec.element = element.bytes;
  if (id.string() == "blosc") {
    codec.kind = CodecKind::blosc;
    codec.level = static_cast<int>(integer_or(reader, "clevel", 5));
    codec.inner = reader.has("cname") ? reader.member("cname").string() : "lz4";
    const std::int64_t shuffle = integer_or(reader, "shuffle", 1);  // -1: bits for single bytes
    codec.shuffle = shuffle == -1 ? element.bytes == 1 ? 2 : 1 : static_cast<int>(shuffle);
    codec.block = integer_or(reader, "blocksize", 0);
  } else if (id.string() == "zstd") {
    codec.kind = CodecKind::zstd;
    codec.level = static_cast<int>(integer_or(reader, "level", 0));
    codec.checksum = reader.has("checksum") && reader.member("checksum").boolean();
  } else if (id.string() == "lz4") {
    codec.kind = CodecKind::lz4;
    codec.level = static_cast<int>(integer_or(reader, "acceleration", 1));
  } else if (id.string() == "zlib" || id.string() == "gzip") {
    codec.kind = id.string() == "zlib" ? CodecKind::zlib : CodecKind::gzip;
    codec.level = static_cast<int>(integer_or(reader, "level", 1));
  } else if (id.string() == "shuffle") {
    codec.kind = CodecKind::shuffle;
    codec.element = reader.has("elementsize") ? reader.member("elementsize").size() : 4;
  } else {
    id.fail(fmt::format("codec '{}' is not known", id.string()), "known are blosc, zstd, lz4, zlib, gzip, shuffle");
  }
  return require_available(id, codec);
}

Json zarr2_codec(const Codec& codec) {
  switch (codec.kind) {
    case CodecKind::blosc:
      return {{"id", "blosc"},
              {"cname", codec.inner},
              {"clevel", codec.level},
              {"shuffle", codec.shuffle},
              {"blocksize", codec.block}};
    case CodecKind::lz4:
      return {{"id", "lz4"}, {"acceleration", codec.level}};
    case CodecKind::shuffle:
      return {{"id", "shuffle"}, {"elementsize", codec.element}};
    case CodecKind::zstd:
    case CodecKind::zlib:
    case CodecKind::gzip:
      return {{"id", name_of(codec.kind)}, {"level", codec.level}};
    case CodecKind::crc32c:
      break;
  }
  throw InputError(fmt::format("Zarr v2 has no codec '{}'", name_of(codec.kind)), "--codec chooses another");
}

// xarray's names of dimensions are among the attributes.
std::vector<std::string> read_zarr2_names(const std::string& folder, std::size_t rank) {
  const std::string path = folder + "/.zattrs";
  if (!fs::exists(path)) return {};
  const Json attributes = Json::parse(hide_words(read_text(path)), nullptr, false);
  const auto found = attributes.is_object() ? attributes.find("_ARRAY_DIMENSIONS") : attributes.end();
  if (attributes.is_discarded() || found == attributes.end() || !found->is_array() || found->size() != rank) return {};
  std::vector<std::string> names;
  for (const Json& name : *found) names.push_back(name.is_string() ? name.get<std::string>() : "");
  return names;
}

StoredArray open_zarr2(const std::string& folder) {
  StoredArray array;
  array.path = folder;
  array.format = Format::zarr2;
  array.metadata = hide_words(read_text(folder + "/.zarray"));
  const SourceText text{folder + "/.zarray", array.metadata};
  const JsonValue value = parse_json(text);
  const JsonReader reader(text, value, "the metadata");
  array.shape = read_shape(reader.member("shape"));
  array.chunk = read_chunk(reader.member("chunks"), array.shape.size());
  const JsonReader type = reader.member("dtype");
  const auto element = type.value().as<std::string>() == nullptr ? std::nullopt : parse_numpy_type(type.string());
  if (!element)
    type.fail("elements of this type are not known", "known are NumPy's numbers, times and texts of fixed length");
  array.element = *element;
  const JsonReader order = reader.member("order");
  if (order.string() != "C" && order.string() != "F")
    order.fail(fmt::format("order '{}' is neither C nor F", order.string()));
  array.order = order.string() == "C" ? row_major(array.shape.size()) : column_major(array.shape.size());
  if (reader.has("filters") && !is_null(reader.member("filters"))) {
    for (const JsonReader& filter : reader.member("filters").elements()) {
      array.codecs.push_back(read_zarr2_codec(filter, array.element));
      if (is_compressor(array.codecs.back().kind)) filter.fail("a compressor among the filters is not supported");
    }
  }
  const JsonReader compressor = reader.member("compressor");
  if (!is_null(compressor)) array.codecs.push_back(read_zarr2_codec(compressor, array.element));
  const bool has_separator = reader.has("dimension_separator");
  array.key_separator = has_separator && reader.member("dimension_separator").string() == "/" ? '/' : '.';
  array.fill = read_fill_value(reader.member("fill_value"), array.element);
  array.dimension_names = read_zarr2_names(folder, array.shape.size());
  require_sizes(array, reader.member("shape"));
  return array;
}

// --- Zarr v3.

struct NamedConfiguration {
  JsonReader name;
  std::optional<JsonReader> configuration;

  explicit NamedConfiguration(const JsonReader& reader)
      : name(reader.value().as<std::string>() != nullptr ? reader : reader.member("name")) {
    if (reader.value().as<JsonObject>() != nullptr && reader.has("configuration"))
      configuration = reader.member("configuration");
  }
  bool has(const char* key) const { return configuration && configuration->has(key); }
};

Codec read_zarr3_codec(const NamedConfiguration& named, const ElementKind& element) {
  const std::string& name = named.name.string();
  Codec codec;
  codec.element = element.bytes;
  const auto integer = [&](const char* key, std::int64_t otherwise) {
    return named.configuration ? integer_or(*named.configuration, key, otherwise) : otherwise;
  };
  if (name == "blosc") {
    codec.kind = CodecKind::blosc;
    codec.level = static_cast<int>(integer("clevel", 5));
    codec.inner = named.has("cname") ? named.configuration->member("cname").string() : "zstd";
    const std::string shuffle = named.has("shuffle") ? named.configuration->member("shuffle").string() : "shuffle";
    codec.shuffle = shuffle == "noshuffle" ? 0 : shuffle == "bitshuffle" ? 2 : 1;
    codec.element = integer("typesize", element.bytes);
    codec.block = integer("blocksize", 0);
  } else if (name == "zstd") {
    codec.kind = CodecKind::zstd;
    codec.level = static_cast<int>(integer("level", 0));
    codec.checksum = named.has("checksum") && named.configuration->member("checksum").boolean();
  } else if (name == "gzip") {
    codec.kind = CodecKind::gzip;
    codec.level = static_cast<int>(integer("level", 5));
  } else if (name == "crc32c") {
    codec.kind = CodecKind::crc32c;
  } else {
    named.name.fail(fmt::format("codec '{}' is not known", name),
                    "known are bytes, transpose, blosc, zstd, gzip, crc32c, sharding_indexed");
  }
  return require_available(named.name, codec);
}

Json zarr3_codec(const Codec& codec) {
  constexpr const char* shuffles[] = {"noshuffle", "shuffle", "bitshuffle"};
  switch (codec.kind) {
    case CodecKind::blosc:
      return {{"name", "blosc"},
              {"configuration",
               {{"typesize", codec.element},
                {"cname", codec.inner},
                {"clevel", codec.level},
                {"shuffle", shuffles[codec.shuffle]},
                {"blocksize", codec.block}}}};
    case CodecKind::zstd:
      return {{"name", "zstd"}, {"configuration", {{"level", codec.level}, {"checksum", codec.checksum}}}};
    case CodecKind::gzip:
      return {{"name", "gzip"}, {"configuration", {{"level", codec.level}}}};
    case CodecKind::crc32c:
      return {{"name", "crc32c"}};
    case CodecKind::lz4:
    case CodecKind::zlib:
    case CodecKind::shuffle:
      break;
  }
  throw InputError(fmt::format("Zarr v3 has no codec '{}'", name_of(codec.kind)), "--codec chooses another");
}

void read_transpose(const NamedConfiguration& named, StoredArray& array) {
  const JsonReader order = named.configuration ? named.configuration->member("order") : named.name;
  if (order.value().as<JsonArray>() == nullptr) order.fail("a transpose needs its order as a list");
  DimensionOrder dimensions;
  for (const std::int64_t dimension : order.integers()) dimensions.push_back(static_cast<std::size_t>(dimension));
  DimensionOrder sorted = dimensions;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != row_major(array.shape.size())) order.fail("the order is no permutation of the dimensions");
  array.order = dimensions;
}

void read_zarr3_codecs(const JsonReader& reader, StoredArray& array);

void read_sharding(const NamedConfiguration& named, StoredArray& array) {
  if (!named.configuration) named.name.fail("sharding needs its configuration");
  if (array.shards) named.name.fail("shards inside shards are not supported");
  const JsonReader chunk = named.configuration->member("chunk_shape");
  Shards shards{array.chunk};
  array.chunk = read_chunk(chunk, array.shape.size());
  for (std::size_t i = 0; i < array.chunk.size(); ++i) {
    if (shards.shape[i] % array.chunk[i] != 0) chunk.fail("chunks do not divide their shard");
  }
  if (named.has("index_location"))
    shards.index_at_start = named.configuration->member("index_location").string() == "start";
  shards.index_has_checksum = false;
  for (const JsonReader& codec : named.configuration->member("index_codecs").elements()) {
    const NamedConfiguration index(codec);
    if (index.name.string() == "crc32c") {
      shards.index_has_checksum = true;
    } else if (index.name.string() != "bytes") {
      index.name.fail(fmt::format("an index encoded by '{}' is not supported", index.name.string()));
    } else if (index.has("endian") && index.configuration->member("endian").string() != "little") {
      index.name.fail("a big-endian index is not supported");
    }
  }
  array.shards = shards;
  read_zarr3_codecs(named.configuration->member("codecs"), array);
}

void read_zarr3_codecs(const JsonReader& reader, StoredArray& array) {
  int compressors = 0;
  for (const JsonReader& element : reader.elements()) {
    const NamedConfiguration named(element);
    if (named.name.string() == "bytes") {
      array.element.big_endian = named.has("endian") && named.configuration->member("endian").string() == "big";
    } else if (named.name.string() == "transpose") {
      if (array.order != row_major(array.shape.size())) named.name.fail("a second transpose is not supported");
      read_transpose(named, array);
    } else if (named.name.string() == "sharding_indexed") {
      if (reader.elements().size() != 1) named.name.fail("codecs beside sharding are not supported");
      read_sharding(named, array);
    } else {
      array.codecs.push_back(read_zarr3_codec(named, array.element));
      if (is_compressor(array.codecs.back().kind) && ++compressors > 1)
        named.name.fail("a second compressor is not supported");
    }
  }
}

void read_key_encoding(const JsonReader& reader, StoredArray& array) {
  const NamedConfiguration named(reader.member("chunk_key_encoding"));
  const bool is_default = named.name.string() == "default";
  if (!is_default && named.name.string() != "v2")
    named.name.fail(fmt::format("chunk keys '{}' are not known", named.name.string()));
  array.key_separator = is_default ? '/' : '.';
  if (named.has("separator"))
    array.key_separator = named.configuration->member("separator").string() == "/" ? '/' : '.';
  array.key_prefix = is_default ? array.shape.empty() ? "c" : fmt::format("c{}", array.key_separator) : "";
}

StoredArray open_zarr3(const std::string& folder) {
  StoredArray array;
  array.path = folder;
  array.format = Format::zarr3;
  array.metadata = hide_words(read_text(folder + "/zarr.json"));
  const SourceText text{folder + "/zarr.json", array.metadata};
  const JsonValue value = parse_json(text);
  const JsonReader reader(text, value, "the metadata");
  array.shape = read_shape(reader.member("shape"));
  array.order = row_major(array.shape.size());
  const NamedConfiguration grid(reader.member("chunk_grid"));
  if (grid.name.string() != "regular" || !grid.configuration)
    grid.name.fail(fmt::format("a chunk grid '{}' is not known", grid.name.string()));
  array.chunk = read_chunk(grid.configuration->member("chunk_shape"), array.shape.size());
  array.element = read_zarr3_type(reader.member("data_type"));
  read_key_encoding(reader, array);
  read_zarr3_codecs(reader.member("codecs"), array);
  if (reader.has("storage_transformers") && !reader.member("storage_transformers").elements().empty()) {
    reader.member("storage_transformers").fail("storage transformers are not supported");
  }
  array.fill = read_fill_value(reader.member("fill_value"), array.element);
  if (reader.has("dimension_names") && !is_null(reader.member("dimension_names"))) {
    for (const JsonReader& name : reader.member("dimension_names").elements()) {
      array.dimension_names.push_back(is_null(name) ? "" : name.string());
    }
  }
  require_sizes(array, reader.member("shape"));
  return array;
}

// --- Targets.

// Filters of HDF5 are no codecs of Zarr's: what was compressed is compressed again, with elements shuffled.
std::vector<Codec> codecs_from_hdf5(const StoredArray& source) {
  const auto is_packed = [](const Codec& codec) { return is_compressor(codec.kind); };
  if (std::none_of(source.codecs.begin(), source.codecs.end(), is_packed)) return {};
  if (is_available(CodecKind::blosc)) return {{CodecKind::blosc, 5, source.element.bytes, "zstd", 1}};
  return {{is_available(CodecKind::zstd) ? CodecKind::zstd : CodecKind::gzip, 3}};
}

Json attributes_of(const StoredArray& source) {
  if (source.format == Format::zarr3 || source.format == Format::hdf5) {
    const Json metadata = Json::parse(source.metadata);
    return metadata.value("attributes", Json::object());
  }
  const std::string path = source.path + "/.zattrs";
  if (source.format == Format::npy || !fs::exists(path)) return Json::object();
  Json attributes = Json::parse(hide_words(read_text(path)), nullptr, false);
  if (attributes.is_discarded() || !attributes.is_object()) {
    throw InputError(fmt::format("cannot read '{}': it is no JSON object", path), {});
  }
  return attributes;
}

Json fill_of(const StoredArray& source) {
  if (source.format == Format::npy)
    return source.element.numpy == "b1"     ? Json(false)
           : source.element.numpy[0] == 'c' ? Json::array({0.0, 0.0})
                                            : Json(0);
  return Json::parse(source.metadata).value("fill_value", Json());
}

std::string write_zarr2(const StoredArray& source, const StoredArray& target) {
  Json metadata = source.format == Format::zarr2 ? Json::parse(source.metadata) : Json::object();
  Json filters = Json::array();
  Json compressor;
  for (const Codec& codec : target.codecs) {
    if (is_compressor(codec.kind)) compressor = zarr2_codec(codec);
    if (!is_compressor(codec.kind)) filters.push_back(zarr2_codec(codec));
  }
  metadata["shape"] = target.shape;
  metadata["chunks"] = target.chunk;
  metadata["dtype"] = numpy_type(target.element);
  metadata["fill_value"] = fill_of(source);
  metadata["order"] = "C";
  metadata["filters"] = filters.empty() ? Json() : filters;
  metadata["dimension_separator"] = std::string(1, target.key_separator);
  metadata["compressor"] = compressor;
  metadata["zarr_format"] = 2;
  return show_words(metadata.dump(2)) + "\n";
}

std::string write_zarr3(const StoredArray& source, const StoredArray& target) {
  Json metadata = source.format == Format::zarr3 ? Json::parse(source.metadata) : Json::object();
  Json codecs = Json::array();
  Json bytes{{"name", "bytes"}};
  if (target.element.bytes > 1) bytes["configuration"] = {{"endian", target.element.big_endian ? "big" : "little"}};
  codecs.push_back(bytes);
  for (const Codec& codec : target.codecs) codecs.push_back(zarr3_codec(codec));
  if (target.shards) {
    Json index = Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}, {{"name", "crc32c"}}});
    Json sharding{
        {"chunk_shape", target.chunk}, {"codecs", codecs}, {"index_codecs", index}, {"index_location", "end"}};
    codecs = Json::array({{{"name", "sharding_indexed"}, {"configuration", sharding}}});
  }
  metadata["shape"] = target.shape;
  if (source.format != Format::zarr3) metadata["data_type"] = *zarr3_name(target.element);
  metadata["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", target.file_shape()}}}};
  if (source.format != Format::zarr3) {
    metadata["chunk_key_encoding"] = {{"name", "default"}, {"configuration", {{"separator", "/"}}}};
  }
  const Json fill = fill_of(source);
  metadata["fill_value"] = !fill.is_null()                  ? fill
                           : target.element.numpy == "b1"   ? Json(false)
                           : target.element.numpy[0] == 'c' ? Json::array({0.0, 0.0})
                                                            : Json(0);
  metadata["codecs"] = codecs;
  metadata["attributes"] = attributes_of(source);
  if (!target.dimension_names.empty()) {
    Json names = Json::array();
    for (const std::string& name : target.dimension_names) names.push_back(name.empty() ? Json() : Json(name));
    metadata["dimension_names"] = names;
  }
  metadata["zarr_format"] = 3;
  metadata["node_type"] = "array";
  if (!metadata.contains("storage_transformers")) metadata["storage_transformers"] = Json::array();
  return show_words(metadata.dump(2)) + "\n";
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
  target.metadata = target.format == Format::zarr2 ? write_zarr2(source, target) : write_zarr3(source, target);
}

}  // namespace

std::int64_t StoredArray::chunk_bytes() const { return product(chunk) * element.bytes; }

bool StoredArray::is_empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

std::int64_t StoredArray::array_bytes() const { return is_empty() ? 0 : product(shape) * element.bytes; }

std::string StoredArray::file_key(const Shape& number) const {
  if (number.empty()) return format == Format::zarr2 || key_prefix.empty() ? "0" : "c";
  return key_prefix + fmt::format("{}", fmt::join(number, std::string(1, key_separator)));
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

std::string attributes_text(const StoredArray& array) { return attributes_of(array).dump(); }

StoredArray open_array(const std::string& path) {
  if (const auto inside = find_hdf5(path)) return open_hdf5(*inside);
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

std::optional<std::vector<Codec>> parse_codec(const SourceText& text) {
  const auto fail = [&](const std::string& message) {
    return InputError(diagnose(text, {0, text.text.size()}, message,
                               "write keep, none, zstd, zstd:7, blosc, blosc:zstd:5, lz4, zlib:1, gzip:5"));
  };
  if (text.text == "keep") return std::nullopt;
  if (text.text == "none") return std::vector<Codec>();
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.text.size();) {
    const std::size_t end = std::min(text.text.find(':', begin), text.text.size());
    parts.push_back(text.text.substr(begin, end - begin));
    begin = end + 1;
  }
  Codec codec;
  std::optional<int> level;
  const auto is_number = [](const std::string& part) {
    return !part.empty() && part.size() < 3 &&
           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (parts.size() > 1 && is_number(parts.back())) {
    level = std::stoi(parts.back());
    parts.pop_back();
  }
  const std::string& name = parts[0];
  if (name == "blosc") {
    codec = {CodecKind::blosc, level.value_or(5), 0, "lz4", 1};
    if (parts.size() > 1) codec.inner = parts[1];
    const std::vector<std::string> known{"blosclz", "lz4", "lz4hc", "zlib", "zstd"};
    if (std::find(known.begin(), known.end(), codec.inner) == known.end())
      throw fail(fmt::format("blosc has no compressor '{}'", codec.inner));
  } else if (parts.size() > 1) {
    throw fail(fmt::format("'{}' is no codec", text.text));
  } else if (name == "zstd") {
    codec = {CodecKind::zstd, level.value_or(0)};
  } else if (name == "lz4") {
    codec = {CodecKind::lz4, level.value_or(1)};
  } else if (name == "zlib") {
    codec = {CodecKind::zlib, level.value_or(1)};
  } else if (name == "gzip") {
    codec = {CodecKind::gzip, level.value_or(5)};
  } else {
    throw fail(fmt::format("'{}' is no codec", text.text));
  }
  if (!is_available(codec.kind)) throw fail(fmt::format("this retile was built without {}", name));
  return std::vector<Codec>{codec};
}

}  // namespace retile::files
