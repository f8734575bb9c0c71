#include "retile/files/zarr2.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "retile/base/error.h"
#include "retile/files/file.h"
#include "retile/files/python_json.h"
#include "retile/files/zarr_metadata.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;

namespace fs = std::filesystem;

Codec read_zarr2_codec(const JsonReader& reader, const ElementKind& element) {
  const JsonReader id = reader.member("id");
  Codec codec;
  codec.element = element.bytes;
  if (id.string() == "blosc") {
    codec.kind = CodecKind::blosc;
    codec.level = clamped(integer_or(reader, "clevel", 5));
    codec.inner = reader.has("cname") ? reader.member("cname").string() : "lz4";
    const std::int64_t shuffle = integer_or(reader, "shuffle", 1);  // -1: bits for single bytes
    codec.shuffle = shuffle == -1 ? element.bytes == 1 ? 2 : 1 : clamped(shuffle);
    codec.block = integer_or(reader, "blocksize", 0);
  } else if (id.string() == "zstd") {
    codec.kind = CodecKind::zstd;
    codec.level = clamped(integer_or(reader, "level", 0));
    codec.checksum = reader.has("checksum") && reader.member("checksum").boolean();
  } else if (id.string() == "lz4") {
    codec.kind = CodecKind::lz4;
    codec.level = clamped(integer_or(reader, "acceleration", 1));
  } else if (id.string() == "zlib" || id.string() == "gzip") {
    codec.kind = id.string() == "zlib" ? CodecKind::zlib : CodecKind::gzip;
    codec.level = clamped(integer_or(reader, "level", 1));
  } else if (id.string() == "shuffle") {
    codec.kind = CodecKind::shuffle;
    codec.element = reader.has("elementsize") ? reader.member("elementsize").size() : 4;
  } else {
    id.fail(fmt::format("codec '{}' is not known", id.string()), "known are blosc, zstd, lz4, zlib, gzip, shuffle");
  }
  return codec;
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
      if (codec.checksum) return {{"id", "zstd"}, {"level", codec.level}, {"checksum", true}};
      return {{"id", "zstd"}, {"level", codec.level}};
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

}  // namespace

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
      add_codec(filter, read_zarr2_codec(filter, array.element), array.codecs);
      if (is_compressor(array.codecs.back().kind)) filter.fail("a compressor among the filters is not supported");
    }
  }
  const JsonReader compressor = reader.member("compressor");
  if (!is_null(compressor)) add_codec(compressor, read_zarr2_codec(compressor, array.element), array.codecs);
  const bool has_separator = reader.has("dimension_separator");
  array.key_separator = has_separator && reader.member("dimension_separator").string() == "/" ? '/' : '.';
  require_sizes(array, reader.member("shape"));
  array.fill = read_fill_value(reader.member("fill_value"), array.element);
  array.dimension_names = read_zarr2_names(folder, array.shape.size());
  return array;
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
  metadata["fill_value"] = Json::parse(fill_text(source));
  metadata["order"] = "C";
  metadata["filters"] = filters.empty() ? Json() : filters;
  metadata["dimension_separator"] = std::string(1, target.key_separator);
  metadata["compressor"] = compressor;
  metadata["zarr_format"] = 2;
  return show_words(metadata.dump(2)) + "\n";
}

}  // namespace retile::files
