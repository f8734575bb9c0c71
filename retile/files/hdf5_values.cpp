#ifdef RETILE_HAS_HDF5

#include "retile/files/hdf5_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>

#include "retile/files/file.h"
#include "retile/files/python_json.h"

namespace retile::files {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string path_of(const Hdf5Handle& object) {
  const auto length = static_cast<std::size_t>(std::max<ssize_t>(0, H5Iget_name(object.get(), nullptr, 0)));
  std::string name(length + 1, '\0');
  H5Iget_name(object.get(), name.data(), name.size());
  name.resize(length);
  return name;
}

namespace {

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

// Pairs of numbers, as Python writes complex ones.
std::optional<ElementKind> complex_kind(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return std::nullopt;
  const Hdf5Handle first(H5Tget_member_type(type, 0), H5Tclose);
  const Hdf5Handle second(H5Tget_member_type(type, 1), H5Tclose);
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
  const Hdf5Handle base(H5Tget_super(type), H5Tclose);
  return kind_of(base.get());
}

}  // namespace

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

namespace {

// The words of Python's JSON are hidden as in texts that are read.
Json json_of(double number) {
  if (std::isfinite(number)) return number;
  return Json::parse(hide_words(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity"));
}

// Bytes that are no UTF-8 become "?": JSON has no other texts.
std::vector<std::string> read_texts(hid_t attribute, hid_t type, std::size_t count) {
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(count);
    if (H5Aread(attribute, type, pointers.data()) < 0) return {};
    for (const char* text : pointers) texts.push_back(utf8_of(text == nullptr ? "" : text));
    const Hdf5Handle space(H5Aget_space(attribute), H5Sclose);
    H5Dvlen_reclaim(type, space.get(), H5P_DEFAULT, pointers.data());
    return texts;
  }
  const std::size_t size = H5Tget_size(type);
  std::vector<char> bytes(size * count);
  if (H5Aread(attribute, type, bytes.data()) < 0) return {};
  for (std::size_t i = 0; i < count; ++i) {
    const char* text = bytes.data() + i * size;
    texts.push_back(utf8_of(std::string(text, strnlen(text, size))));
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
Json read_attribute(const Hdf5Handle& attribute) {
  const Hdf5Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Hdf5Handle space(H5Aget_space(attribute.get()), H5Sclose);
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

Hdf5Handle open_attribute(const Hdf5Handle& object, const char* name) {
  return {H5Aexists(object.get(), name) > 0 ? H5Aopen(object.get(), name, H5P_DEFAULT) : -1, H5Aclose};
}

std::string read_text_attribute(const Hdf5Handle& object, const char* name) {
  const Hdf5Handle attribute = open_attribute(object, name);
  const Json value = attribute.is_there() ? read_attribute(attribute) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

Json attributes_of(const Hdf5Handle& object) {
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
    if (!value.is_null()) attributes[utf8_of(name)] = std::move(value);
  }
  return attributes;
}

}  // namespace

std::string read_attributes(const Hdf5Handle& object) { return attributes_of(object).dump(); }

namespace {

// --- Dimensions.

std::string last_name(const std::string& path) { return utf8_of(path.substr(path.rfind('/') + 1)); }

bool is_scale(const Hdf5Handle& array) { return read_text_attribute(array, "CLASS") == "DIMENSION_SCALE"; }

}  // namespace

bool is_bare_dimension(const Hdf5Handle& array) {
  return is_scale(array) && read_text_attribute(array, "NAME").starts_with("This is a netCDF dimension but not");
}

std::vector<std::string> dimension_names(const Hdf5Handle& array, std::size_t rank) {
  if (is_scale(array) && rank == 1) return {last_name(path_of(array))};
  const Hdf5Handle list = open_attribute(array, "DIMENSION_LIST");
  std::vector<std::string> names;
  if (list.is_there()) {
    const Hdf5Handle type(H5Aget_type(list.get()), H5Tclose);
    const Hdf5Handle space(H5Aget_space(list.get()), H5Sclose);
    const Hdf5Handle listed(H5Tget_super(type.get()), H5Tclose);
    const bool are_references = H5Tget_class(type.get()) == H5T_VLEN && H5Tequal(listed.get(), H5T_STD_REF_OBJ) > 0;
    if (!are_references || shape_of_space(space.get()) != Shape{static_cast<std::int64_t>(rank)}) return {};
    std::vector<hvl_t> scales(rank);
    if (H5Aread(list.get(), type.get(), scales.data()) < 0) return {};
    for (const hvl_t& scale : scales) {
      const Hdf5Handle found(scale.len == 0 ? -1 : H5Rdereference2(array.get(), H5P_DEFAULT, H5R_OBJECT, scale.p),
                             H5Oclose);
      names.push_back(found.is_there() ? last_name(path_of(found)) : "");
    }
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, scales.data());
    return names;
  }
  const Hdf5Handle labels = open_attribute(array, "DIMENSION_LABELS");
  const Json texts = labels.is_there() ? read_attribute(labels) : Json();
  if (!texts.is_array() || texts.size() != rank) return {};
  for (const Json& text : texts) names.push_back(text.is_string() ? text.get<std::string>() : "");
  return names;
}

// --- Fill values.

namespace {

Json fill_value(const ElementKind& kind, const std::vector<std::byte>& bytes) {
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

}  // namespace

std::string fill_json(const ElementKind& kind, const std::vector<std::byte>& bytes) {
  return fill_value(kind, bytes).dump();
}

std::vector<std::byte> read_fill(hid_t properties, hid_t type, std::int64_t bytes) {
  std::vector<std::byte> fill(static_cast<std::size_t>(bytes));
  H5D_fill_value_t state = H5D_FILL_VALUE_UNDEFINED;
  H5Pfill_value_defined(properties, &state);
  if (state != H5D_FILL_VALUE_UNDEFINED) H5Pget_fill_value(properties, type, fill.data());
  return fill;
}

namespace {

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

Json missing_json(const Hdf5Handle& array, const ElementKind& kind) {
  const Hdf5Handle attribute = open_attribute(array, "_FillValue");
  if (!attribute.is_there()) return {};
  if (kind.numpy[0] != 'f') return read_attribute(attribute);
  const Hdf5Handle space(H5Aget_space(attribute.get()), H5Sclose);
  double value = 0;
  if (H5Sget_simple_extent_npoints(space.get()) != 1) return {};
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0) return {};
  return base64(std::bit_cast<std::array<unsigned char, sizeof value>>(value));
}

}  // namespace

std::string missing_value(const Hdf5Handle& array, const ElementKind& kind) { return missing_json(array, kind).dump(); }

}  // namespace retile::files

#endif
