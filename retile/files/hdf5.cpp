#include "retile/files/hdf5.h"

#include <fmt/format.h>
#ifdef RETILE_HAS_HDF5
#include <hdf5.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/files/file.h"
#include "retile/files/python_json.h"
#include "retile/grids/grid.h"

namespace retile::files {
namespace {

// What every file of HDF5 has at its beginning, or at 512 bytes, 1024, 2048 and so on.
constexpr std::array<char, 8> signature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1A', '\n'};

bool is_hdf5(const std::string& path) {
  const auto file = File::open_if_there(path);
  if (!file) return false;
  const std::int64_t size = file->size();
  for (std::int64_t at = 0; at + static_cast<std::int64_t>(signature.size()) <= size; at = at == 0 ? 512 : 2 * at) {
    std::array<char, signature.size()> bytes{};
    file->read(at, std::as_writable_bytes(std::span(bytes)));
    if (bytes == signature) return true;
  }
  return false;
}

}  // namespace

std::optional<Hdf5Path> find_hdf5(const std::string& path) {
  namespace fs = std::filesystem;
  std::string inside;
  for (fs::path file = path; !file.empty(); file = file.parent_path()) {
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) {
      return is_hdf5(file.string()) ? std::optional(Hdf5Path{file.string(), inside}) : std::nullopt;
    }
    if (fs::exists(file, ignored) || file == file.parent_path()) return std::nullopt;
    const std::string name = file.filename().string();
    inside = inside.empty() ? name : fmt::format("{}/{}", name, inside);
  }
  return std::nullopt;
}

}  // namespace retile::files

#ifdef RETILE_HAS_HDF5

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;

// --- The library's objects.

// Closes what it holds. Below 0: the library has failed.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t number, Close close) : number_(number), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle(Handle&& other) noexcept : number_(std::exchange(other.number_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (number_ >= 0) close_(number_);
  }
  hid_t get() const { return number_; }
  bool is_there() const { return number_ >= 0; }

 private:
  hid_t number_;
  Close close_;
};

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path), file_(open(path)) {
    if (!file_.is_there()) throw InputError(fmt::format("cannot read '{}': HDF5 cannot open it", path), {});
  }
  const std::string& path() const { return path_; }
  hid_t root() const { return file_.get(); }

  // A group or an array of the file.
  Handle open_object(const std::string& inside) const {
    Handle object(H5Oopen(root(), inside.empty() ? "/" : inside.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.is_there()) throw InputError(fmt::format("'{}' has no '{}'", path_, inside), {});
    return object;
  }

  // Bytes in front of what HDF5 counts its places from.
  std::int64_t user_bytes() const {
    const Handle properties(H5Fget_create_plist(root()), H5Pclose);
    hsize_t bytes = 0;
    H5Pget_userblock(properties.get(), &bytes);
    return static_cast<std::int64_t>(bytes);
  }

 private:
  static Handle open(const std::string& path) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are told by ours
    return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose};
  }

  std::string path_;
  Handle file_;
};

bool is_array(const Handle& object) { return H5Iget_type(object.get()) == H5I_DATASET; }
bool is_group(const Handle& object) { return H5Iget_type(object.get()) == H5I_GROUP; }

std::string name_of(const Handle& object) {
  const auto length = static_cast<std::size_t>(std::max<ssize_t>(0, H5Iget_name(object.get(), nullptr, 0)));
  std::string name(length + 1, '\0');
  H5Iget_name(object.get(), name.data(), name.size());
  name.resize(length);
  return name;
}

// --- Elements.

std::optional<ElementKind> float_kind(hid_t type) {
  const std::array<std::pair<hid_t, const char*>, 4> known{
      {{H5T_IEEE_F32LE, "f4"}, {H5T_IEEE_F32BE, "f4"}, {H5T_IEEE_F64LE, "f8"}, {H5T_IEEE_F64BE, "f8"}}};
  const bool is_big = H5Tget_order(type) == H5T_ORDER_BE;
  const auto size = static_cast<std::int64_t>(H5Tget_size(type));
  for (const auto& [same, numpy] : known) {
    if (H5Tequal(type, same) > 0) return ElementKind{numpy, size, is_big};
  }
  std::size_t sign = 0;
  std::size_t exponent_at = 0;
  std::size_t exponent = 0;
  std::size_t mantissa_at = 0;
  std::size_t mantissa = 0;
  H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
  const bool is_half = size == 2 && sign == 15 && exponent_at == 10 && exponent == 5 && mantissa == 10;
  return is_half ? std::optional(ElementKind{"f2", 2, is_big}) : std::nullopt;
}

std::optional<ElementKind> kind_of(hid_t type);

// Pairs of numbers, as Python writes complex ones.
std::optional<ElementKind> complex_kind(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return std::nullopt;
  const Handle first(H5Tget_member_type(type, 0), H5Tclose);
  const Handle second(H5Tget_member_type(type, 1), H5Tclose);
  const auto part = H5Tget_class(first.get()) == H5T_FLOAT ? float_kind(first.get()) : std::nullopt;
  const auto size = static_cast<std::int64_t>(H5Tget_size(type));
  const bool is_packed = part && size == 2 * part->bytes && H5Tget_member_offset(type, 0) == 0;
  if (!is_packed || part->bytes < 4 || H5Tequal(first.get(), second.get()) <= 0) return std::nullopt;
  return ElementKind{fmt::format("c{}", size), size, part->big_endian};
}

// Truths, as Python writes them; other named numbers are numbers.
std::optional<ElementKind> enumeration_kind(hid_t type) {
  const bool is_truth = H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && H5Tget_member_index(type, "FALSE") == 0;
  if (is_truth) return ElementKind{"b1", 1, false};
  const Handle base(H5Tget_super(type), H5Tclose);
  return kind_of(base.get());
}

std::optional<ElementKind> kind_of(hid_t type) {
  const auto size = static_cast<std::int64_t>(H5Tget_size(type));
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: {
      const bool has_bits = H5Tget_precision(type) == 8 * H5Tget_size(type);
      if (!has_bits || size > 8 || !std::has_single_bit(static_cast<std::uint64_t>(size))) return std::nullopt;
      const char* letter = H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "i";
      return ElementKind{fmt::format("{}{}", letter, size), size, size > 1 && H5Tget_order(type) == H5T_ORDER_BE};
    }
    case H5T_FLOAT:
      return float_kind(type);
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) return std::nullopt;
      return ElementKind{fmt::format("S{}", size), size, false};
    case H5T_COMPOUND:
      return complex_kind(type);
    case H5T_ENUM:
      return enumeration_kind(type);
    default:
      return std::nullopt;
  }
}

const char* class_name(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      return "texts of any length";
    case H5T_COMPOUND:
      return "records";
    case H5T_REFERENCE:
      return "references";
    case H5T_VLEN:
      return "lists";
    case H5T_ARRAY:
      return "arrays";
    case H5T_OPAQUE:
      return "opaque bytes";
    default:
      return "numbers of a form of their own";
  }
}

// --- Attributes.

Shape shape_of_space(hid_t space) {
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space))));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

// The words of Python's JSON are hidden as in texts that are read.
Json json_of(double number) {
  if (std::isfinite(number)) return number;
  return Json::parse(hide_words(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity"));
}

std::vector<std::string> read_texts(hid_t attribute, hid_t type, std::size_t count) {
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(count);
    if (H5Aread(attribute, type, pointers.data()) < 0) return {};
    for (const char* text : pointers) texts.emplace_back(text == nullptr ? "" : text);
    const Handle space(H5Aget_space(attribute), H5Sclose);
    H5Dvlen_reclaim(type, space.get(), H5P_DEFAULT, pointers.data());
    return texts;
  }
  const std::size_t size = H5Tget_size(type);
  std::vector<char> bytes(size * count);
  if (H5Aread(attribute, type, bytes.data()) < 0) return {};
  for (std::size_t i = 0; i < count; ++i) {
    const char* text = bytes.data() + i * size;
    texts.emplace_back(text, strnlen(text, size));
  }
  return texts;
}

template <typename Value>
std::vector<Json> read_numbers(hid_t attribute, hid_t native, std::size_t count) {
  std::vector<Value> values(count);
  if (H5Aread(attribute, native, values.data()) < 0) return {};
  std::vector<Json> numbers;
  for (const Value value : values) {
    if constexpr (std::is_same_v<Value, double>) {
      numbers.push_back(json_of(value));
    } else {
      numbers.emplace_back(value);
    }
  }
  return numbers;
}

// Null where it is nothing that JSON holds, such as references.
Json read_attribute(const Handle& attribute) {
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  const Shape shape = shape_of_space(space.get());
  const auto count = static_cast<std::size_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space.get())));
  std::vector<Json> values;
  switch (H5Tget_class(type.get())) {
    case H5T_STRING:
      for (const std::string& text : read_texts(attribute.get(), type.get(), count)) values.emplace_back(text);
      break;
    case H5T_INTEGER:
      values = H5Tget_sign(type.get()) == H5T_SGN_NONE
                   ? read_numbers<std::uint64_t>(attribute.get(), H5T_NATIVE_UINT64, count)
                   : read_numbers<std::int64_t>(attribute.get(), H5T_NATIVE_INT64, count);
      break;
    case H5T_FLOAT:
      values = read_numbers<double>(attribute.get(), H5T_NATIVE_DOUBLE, count);
      break;
    default:
      return {};
  }
  if (values.size() != count) return {};
  // NetCDF writes single values as lists of one.
  return count == 1 && shape.size() <= 1 ? values.front() : Json(values);
}

// What HDF5 and NetCDF say of dimensions, which targets say by their names.
bool is_internal(const std::string& name) {
  constexpr std::array names{"CLASS",         "NAME",       "DIMENSION_LIST",      "REFERENCE_LIST", "DIMENSION_LABELS",
                             "_Netcdf4Dimid", "_FillValue", "_Netcdf4Coordinates", "_nc3_strict",    "_NCProperties"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

Handle open_attribute(const Handle& object, const char* name) {
  return {H5Aexists(object.get(), name) > 0 ? H5Aopen(object.get(), name, H5P_DEFAULT) : -1, H5Aclose};
}

std::string read_text_attribute(const Handle& object, const char* name) {
  const Handle attribute = open_attribute(object, name);
  const Json value = attribute.is_there() ? read_attribute(attribute) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

Json read_attributes(const Handle& object) {
  std::vector<std::string> names;
  const H5A_operator2_t add = [](hid_t, const char* name, const H5A_info_t*, void* list) {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return herr_t{0};
  };
  hsize_t next = 0;
  H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, &next, add, &names);
  Json attributes = Json::object();
  for (const std::string& name : names) {
    if (is_internal(name)) continue;
    Json value = read_attribute(open_attribute(object, name.c_str()));
    if (!value.is_null()) attributes[name] = std::move(value);
  }
  return attributes;
}

// --- Dimensions.

std::string last_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_scale(const Handle& array) { return read_text_attribute(array, "CLASS") == "DIMENSION_SCALE"; }

// A dimension of NetCDF that no variable goes with.
bool is_bare_dimension(const Handle& array) {
  return is_scale(array) && read_text_attribute(array, "NAME").starts_with("This is a netCDF dimension but not");
}

// The names of the arrays that stand for the dimensions.
std::vector<std::string> dimension_names(const Handle& array, std::size_t rank) {
  if (is_scale(array) && rank == 1) return {last_name(name_of(array))};
  const Handle list = open_attribute(array, "DIMENSION_LIST");
  std::vector<std::string> names;
  if (list.is_there()) {
    const Handle type(H5Aget_type(list.get()), H5Tclose);
    const Handle space(H5Aget_space(list.get()), H5Sclose);
    if (shape_of_space(space.get()) != Shape{static_cast<std::int64_t>(rank)}) return {};
    std::vector<hvl_t> scales(rank);
    if (H5Aread(list.get(), type.get(), scales.data()) < 0) return {};
    for (const hvl_t& scale : scales) {
      const Handle found(scale.len == 0 ? -1 : H5Rdereference2(array.get(), H5P_DEFAULT, H5R_OBJECT, scale.p),
                         H5Oclose);
      names.push_back(found.is_there() ? last_name(name_of(found)) : "");
    }
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, scales.data());
    return names;
  }
  const Handle labels = open_attribute(array, "DIMENSION_LABELS");
  const Json texts = labels.is_there() ? read_attribute(labels) : Json();
  if (!texts.is_array() || texts.size() != rank) return {};
  for (const Json& text : texts) names.push_back(text.is_string() ? text.get<std::string>() : "");
  return names;
}

// --- Fill values.

// As a fill value of Zarr.
Json fill_json(const ElementKind& kind, const std::vector<std::byte>& bytes) {
  const auto word = [&](std::size_t at, std::size_t size) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t place = kind.big_endian ? at + i : at + size - 1 - i;
      bits = bits << 8U | std::to_integer<std::uint64_t>(bytes[place]);
    }
    return bits;
  };
  const auto number = [&](std::size_t at, std::size_t size) -> Json {
    const std::uint64_t bits = word(at, size);
    const double value = size == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                                   : std::bit_cast<double>(bits);
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
  };
  const auto size = static_cast<std::size_t>(kind.bytes);
  switch (kind.numpy[0]) {
    case 'b':
      return word(0, size) != 0;
    case 'u':
      return word(0, size);
    case 'i':
      return static_cast<std::int64_t>(word(0, size) << (64 - 8 * size)) >> (64 - 8 * size);
    case 'f':
      if (size == 2) return word(0, size) == 0 ? Json(0.0) : Json(fmt::format("0x{:04x}", word(0, size)));
      return number(0, size);
    case 'c':
      return Json::array({number(0, size / 2), number(size / 2, size / 2)});
    default:
      return {};
  }
}

std::vector<std::byte> read_fill(hid_t properties, hid_t type, std::int64_t bytes) {
  std::vector<std::byte> fill(static_cast<std::size_t>(bytes));
  H5D_fill_value_t state = H5D_FILL_VALUE_UNDEFINED;
  H5Pfill_value_defined(properties, &state);
  if (state != H5D_FILL_VALUE_UNDEFINED) H5Pget_fill_value(properties, type, fill.data());
  return fill;
}

std::string base64(std::span<const unsigned char> bytes) {
  constexpr const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned word = 0;
    for (std::size_t j = i; j < i + 3; ++j) word = word << 8U | (j < bytes.size() ? bytes[j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : letters[word >> (18 - 6 * j) & 63U];
  }
  return text;
}

// What NetCDF takes for missing, as xarray writes it into attributes of Zarr v3: integers as they are, other numbers as
// the bytes of a double.
Json missing_value(const Handle& array, const ElementKind& kind) {
  const Handle attribute = open_attribute(array, "_FillValue");
  if (!attribute.is_there()) return {};
  if (kind.numpy[0] != 'f') return read_attribute(attribute);
  double value = 0;
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0) return {};
  return base64(std::bit_cast<std::array<unsigned char, sizeof value>>(value));
}

// --- Where chunks lie.

Codec read_filter(unsigned number, const std::vector<unsigned>& values, const std::string& name) {
  constexpr unsigned blosc = 32001;  // as registered with the HDF Group
  constexpr unsigned zstd = 32015;
  const auto value = [&](std::size_t i) { return i < values.size() ? static_cast<int>(values[i]) : 0; };
  if (number == H5Z_FILTER_DEFLATE) return {CodecKind::zlib, value(0)};
  if (number == H5Z_FILTER_SHUFFLE) return {CodecKind::shuffle, 0, std::max(1, value(0))};
  if (number == blosc) {
    constexpr std::array inner{"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
    const auto compressor = static_cast<std::size_t>(value(6));
    return {CodecKind::blosc, value(4), std::max(1, value(2)), inner[std::min(compressor, inner.size() - 1)], value(5)};
  }
  if (number == zstd) return {CodecKind::zstd, value(0)};
  throw InputError(fmt::format("{}: a filter '{}' is not known", name, number),
                   "known are deflate, shuffle, blosc (32001), zstd (32015)");
}

std::vector<Codec> read_filters(hid_t properties, const std::string& name) {
  std::vector<Codec> codecs;
  const int count = H5Pget_nfilters(properties);
  for (unsigned i = 0; i < static_cast<unsigned>(std::max(0, count)); ++i) {
    std::vector<unsigned> values(16);
    std::size_t filled = values.size();
    unsigned flags = 0;
    std::array<char, 64> text{};
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, i, &flags, &filled, values.data(), text.size(), text.data(), nullptr);
    values.resize(std::min(filled, values.size()));
    const std::string shown = text[0] == '\0' ? name : fmt::format("{}: {}", name, text.data());
    const bool is_behind = !codecs.empty() && is_compressor(codecs.back().kind);
    codecs.push_back(read_filter(static_cast<unsigned>(filter), values, shown));
    const std::string fault = is_behind ? "filters after a compressor are not supported" : fault_of(codecs);
    if (!fault.empty()) throw InputError(fmt::format("{}: {}", name, fault), {});
  }
  return codecs;
}

// More would take gigabytes to list.
constexpr std::int64_t most_listed_chunks = 1 << 24;

std::vector<StoredChunk> read_places(const Handle& array, const StoredArray& stored, std::int64_t user_bytes) {
  Grid grid;
  for (std::size_t i = 0; i < stored.shape.size(); ++i) grid.push_back(divide_up(stored.shape[i], stored.chunk[i]));
  const auto count = checked_product(grid);
  if (!count || *count > most_listed_chunks) {
    throw InputError(fmt::format("'{}' has more than {} chunks in an array", stored.path, most_listed_chunks), {});
  }
  std::vector<StoredChunk> places(static_cast<std::size_t>(*count));
  std::vector<hsize_t> corner(grid.size());
  for (std::size_t place = 0; place < places.size(); ++place) {
    auto rest = static_cast<std::int64_t>(place);
    for (std::size_t i = grid.size(); i-- > 0; rest /= grid[i]) {
      corner[i] = static_cast<hsize_t>(rest % grid[i]) * static_cast<hsize_t>(stored.chunk[i]);
    }
    haddr_t offset = HADDR_UNDEF;
    hsize_t bytes = 0;
    unsigned skipped = 0;
    if (H5Dget_chunk_info_by_coord(array.get(), corner.data(), &skipped, &offset, &bytes) < 0) {
      throw InputError(fmt::format("cannot read '{}': HDF5 does not find its chunks", stored.path), {});
    }
    if (offset == HADDR_UNDEF) continue;
    places[place] = {static_cast<std::int64_t>(offset) + user_bytes, static_cast<std::int64_t>(bytes), skipped};
  }
  return places;
}

void require_sizes(const StoredArray& stored, const std::string& name) {
  const std::string fault = size_fault_of(stored);
  if (!fault.empty()) throw InputError(fmt::format("{}: {}", name, fault), {});
}

// Chunks, or all elements in one piece.
void read_storage(const OpenFile& file, const Handle& array, hid_t properties, StoredArray& stored) {
  const std::string name = fmt::format("{}/{}", file.path(), name_of(array).substr(1));
  if (H5Pget_external_count(properties) > 0) {
    throw InputError(fmt::format("{}: elements in other files are not supported", name), {});
  }
  std::vector<StoredChunk> places;
  switch (H5Pget_layout(properties)) {
    case H5D_CHUNKED: {
      std::vector<hsize_t> chunk(stored.shape.size());
      H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
      stored.chunk.assign(chunk.begin(), chunk.end());
      stored.codecs = read_filters(properties, name);
      require_sizes(stored, name);
      if (!stored.is_empty()) places = read_places(array, stored, file.user_bytes());
      break;
    }
    case H5D_CONTIGUOUS: {
      const haddr_t offset = H5Dget_offset(array.get());
      stored.chunk = stored.shape;
      std::replace(stored.chunk.begin(), stored.chunk.end(), std::int64_t{0}, std::int64_t{1});
      require_sizes(stored, name);
      if (offset == HADDR_UNDEF) {
        places.emplace_back();  // nothing was written
      } else {
        places.push_back({static_cast<std::int64_t>(offset), stored.chunk_bytes(), 0});
      }
      break;
    }
    case H5D_COMPACT:
      throw InputError(fmt::format("{}: elements in the header are not supported", name), {});
    default:
      throw InputError(fmt::format("{}: an array that is put together from others is not supported", name), {});
  }
  stored.places = std::make_shared<const std::vector<StoredChunk>>(std::move(places));
}

// --- Groups.

std::string joined(const std::string& group, const std::string& name) {
  return group.empty() ? name : name.empty() ? group : group + "/" + name;
}

// What hangs in a group by itself, sorted; links to elsewhere are left out.
std::vector<std::string> members_of(const Handle& group) {
  std::vector<std::string> names;
  const H5L_iterate_t add = [](hid_t, const char* name, const H5L_info_t* link, void* list) {
    if (link->type == H5L_TYPE_HARD) static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return herr_t{0};
  };
  hsize_t next = 0;
  H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, &next, add, &names);
  return names;
}

struct Nodes {
  std::vector<std::string> arrays;
  std::vector<Hdf5Group> groups;
  std::set<haddr_t> seen = {};  // addresses of groups: links may form cycles
};

void find_nodes(const OpenFile& file, const Hdf5Path& path, const std::string& name, Nodes& nodes) {
  const Handle object = file.open_object(joined(path.inside, name));
  if (is_array(object)) {
    if (!is_bare_dimension(object)) nodes.arrays.push_back(name);
    return;
  }
  H5O_info_t info{};
  H5Oget_info(object.get(), &info);
  if (!is_group(object) || !nodes.seen.insert(info.addr).second) return;
  nodes.groups.push_back({name, read_attributes(object).dump()});
  for (const std::string& member : members_of(object)) find_nodes(file, path, joined(name, member), nodes);
}

Nodes nodes_of(const Hdf5Path& path) {
  const OpenFile file(path.file);
  Nodes nodes;
  find_nodes(file, path, "", nodes);
  return nodes;
}

}  // namespace

std::vector<std::string> hdf5_arrays(const Hdf5Path& path) {
  std::vector<std::string> arrays = nodes_of(path).arrays;
  if (arrays.empty()) throw InputError(fmt::format("'{}' has no arrays", joined(path.file, path.inside)), {});
  return arrays;
}

std::vector<Hdf5Group> hdf5_groups(const Hdf5Path& path) { return nodes_of(path).groups; }

StoredArray open_hdf5(const Hdf5Path& path) {
  const OpenFile file(path.file);
  const Handle array = file.open_object(path.inside);
  if (!is_array(array)) throw InputError(fmt::format("'{}' is no array of '{}'", path.inside, path.file), {});
  const Handle type(H5Dget_type(array.get()), H5Tclose);
  const Handle space(H5Dget_space(array.get()), H5Sclose);
  const Handle properties(H5Dget_create_plist(array.get()), H5Pclose);
  const auto element = kind_of(type.get());
  if (!element) {
    throw InputError(
        fmt::format("'{}' of '{}' holds {}, which are not known", path.inside, path.file, class_name(type.get())),
        "arrays of numbers, truths and texts of one length are; name one of them behind the file");
  }
  StoredArray stored;
  stored.path = path.file;
  stored.format = Format::hdf5;
  stored.element = *element;
  stored.shape = shape_of_space(space.get());
  stored.order = row_major(stored.shape.size());
  read_storage(file, array, properties.get(), stored);
  stored.dimension_names = dimension_names(array, stored.shape.size());
  stored.fill = read_fill(properties.get(), type.get(), element->bytes);
  Json attributes = read_attributes(array);
  Json missing = missing_value(array, *element);
  // Without one, zeros are values like others: xarray would take Zarr's fill value for missing.
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  const bool has_fill = !missing.is_null() || !std::all_of(stored.fill->begin(), stored.fill->end(), is_zero);
  if (!missing.is_null()) attributes["_FillValue"] = std::move(missing);
  stored.metadata = Json{{"hdf5", path.inside},
                         {"shape", stored.shape},
                         {"chunks", stored.chunk},
                         {"dtype", numpy_type(*element)},
                         {"fill_value", has_fill ? fill_json(*element, *stored.fill) : Json()},
                         {"attributes", std::move(attributes)}}
                        .dump();
  return stored;
}

}  // namespace retile::files

#else

namespace retile::files {
namespace {

[[noreturn]] void refuse(const Hdf5Path& path) {
  throw InputError(fmt::format("cannot read '{}': this retile was built without HDF5", path.file), {});
}

}  // namespace

std::vector<std::string> hdf5_arrays(const Hdf5Path& path) { refuse(path); }
std::vector<Hdf5Group> hdf5_groups(const Hdf5Path& path) { refuse(path); }
StoredArray open_hdf5(const Hdf5Path& path) { refuse(path); }

}  // namespace retile::files

#endif
