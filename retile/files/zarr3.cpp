#include "retile/files/zarr3.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "retile/base/error.h"
#include "retile/files/file.h"
#include "retile/files/python_json.h"
#include "retile/files/zarr_metadata.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;

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
    codec.level = clamped(integer("clevel", 5));
    codec.inner = named.has("cname") ? named.configuration->member("cname").string() : "zstd";
    const std::string shuffle = named.has("shuffle") ? named.configuration->member("shuffle").string() : "shuffle";
    codec.shuffle = shuffle == "noshuffle" ? 0 : shuffle == "bitshuffle" ? 2 : 1;
    codec.element = integer("typesize", element.bytes);
    codec.block = integer("blocksize", 0);
  } else if (name == "zstd") {
    codec.kind = CodecKind::zstd;
    codec.level = clamped(integer("level", 0));
    codec.checksum = named.has("checksum") && named.configuration->member("checksum").boolean();
  } else if (name == "gzip") {
    codec.kind = CodecKind::gzip;
    codec.level = clamped(integer("level", 5));
  } else if (name == "crc32c") {
    codec.kind = CodecKind::crc32c;
  } else {
    named.name.fail(fmt::format("codec '{}' is not known", name),
                    "known are bytes, transpose, blosc, zstd, gzip, crc32c, sharding_indexed");
  }
  return codec;
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
      add_codec(named.name, read_zarr3_codec(named, array.element), array.codecs);
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

}  // namespace

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
  require_sizes(array, reader.member("shape"));
  array.fill = read_fill_value(reader.member("fill_value"), array.element);
  if (reader.has("dimension_names") && !is_null(reader.member("dimension_names"))) {
    for (const JsonReader& name : reader.member("dimension_names").elements()) {
      array.dimension_names.push_back(is_null(name) ? "" : name.string());
    }
  }
  if (reader.has("attributes")) (void)reader.member("attributes").members();
  return array;
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
  const Json fill = Json::parse(fill_text(source));
  metadata["fill_value"] = fill.is_null() ? Json::parse(zero_text(target.element)) : fill;
  metadata["codecs"] = codecs;
  metadata["attributes"] = Json::parse(attributes_text(source));
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

}  // namespace retile::files
