#include "retile/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/files/file.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t length_bytes = 8;             // of the header's length, in front of it
constexpr std::int64_t most_header_bytes = 1 << 30;  // a hundred thousand tensors take ten million
constexpr std::size_t alignment = 8;                 // of the data

struct NamedType {
  const char* name = nullptr;
  std::int64_t bytes = 0;
  std::optional<ElementType> type;  // as retile names it
};
constexpr NamedType types[] = {{"F64", 8, ElementType::f64},
                               {"F32", 4, ElementType::f32},
                               {"F16", 2, ElementType::f16},
                               {"BF16", 2, ElementType::bf16},
                               {"F8_E4M3", 1, ElementType::f8e4m3fn},
                               {"F8_E5M2", 1, ElementType::f8e5m2},
                               {"F8_E8M0", 1, std::nullopt},
                               {"I64", 8, ElementType::i64},
                               {"I32", 4, ElementType::i32},
                               {"I16", 2, ElementType::i16},
                               {"I8", 1, ElementType::i8},
                               {"U64", 8, ElementType::u64},
                               {"U32", 4, ElementType::u32},
                               {"U16", 2, ElementType::u16},
                               {"U8", 1, ElementType::u8},
                               {"BOOL", 1, ElementType::boolean},
                               {"C64", 8, ElementType::c64}};

std::int64_t size_of(const JsonReader& type) {
  for (const NamedType& known : types) {
    if (type.string() == known.name) return known.bytes;
  }
  type.fail(fmt::format("elements of type '{}' are not known", type.string()));
}

Tensor read_tensor(const JsonReader& reader, std::int64_t data_begin, std::int64_t file_size) {
  Tensor tensor;
  tensor.type = reader.member("dtype").string();
  tensor.element_bytes = size_of(reader.member("dtype"));
  for (const JsonReader& size : reader.member("shape").elements()) tensor.shape.push_back(size.count());
  const JsonReader offsets = reader.member("data_offsets");
  const std::vector<std::int64_t> range = offsets.integers();
  const bool is_range =
      range.size() == 2 && range[0] >= 0 && range[0] <= range[1] && range[1] <= file_size - data_begin;
  if (!is_range) offsets.fail("these offsets do not lie in the file");
  tensor.offset = data_begin + range[0];
  if (tensor.bytes() != range[1] - range[0])
    offsets.fail(fmt::format("its shape takes {} bytes, and here are {}", tensor.bytes(), range[1] - range[0]));
  return tensor;
}

void read_file(const std::string& path, Model& model) {
  const auto file = File::open_if_there(path);
  if (!file) throw InputError(fmt::format("cannot read '{}': it does not exist", path), {});
  const std::int64_t size = file->size();
  std::byte start[length_bytes]{};
  std::int64_t length = 0;
  if (size >= length_bytes) file->read(0, start);
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | std::to_integer<std::int64_t>(start[i]);
  if (size < length_bytes || length < 2 || length > std::min(most_header_bytes, size - length_bytes)) {
    throw InputError(fmt::format("'{}' is no file of safetensors", path), {});
  }
  SourceText text{path, std::string(static_cast<std::size_t>(length), ' ')};
  file->read(length_bytes, std::as_writable_bytes(std::span(text.text)));
  const JsonValue value = parse_json(text);
  for (const auto& [name, reader] : JsonReader(text, value, "the header").members()) {
    if (name == "__metadata__") {
      const SourceRange range = reader.value().range();
      if (model.metadata.empty()) model.metadata = text.text.substr(range.begin, range.end - range.begin);
      continue;
    }
    Tensor tensor = read_tensor(reader, length_bytes + length, size);
    tensor.file = model.files.size();
    if (!model.tensors.emplace(name, tensor).second) reader.fail(fmt::format("'{}' is in two files", name));
  }
  model.files.push_back(path);
}

Model open_index(const std::string& path) {
  const SourceText text{path, read_text(path)};
  const JsonValue value = parse_json(text);
  const auto weights = JsonReader(text, value, "the index").member("weight_map").members();
  const fs::path folder = fs::path(path).parent_path();
  std::map<std::string, std::size_t> files;  // numbers in the model
  Model model;
  for (const auto& [name, file] : weights) {
    if (!files.emplace(file.string(), model.files.size()).second) continue;
    const fs::path inside = fs::path(file.string()).lexically_normal();
    if (inside.is_absolute() || inside.begin()->string() == "..") file.fail("this file is not in the index's folder");
    read_file(folder / inside, model);
  }
  for (const auto& [name, file] : weights) {
    const auto found = model.tensors.find(name);
    if (found == model.tensors.end() || found->second.file != files.at(file.string()))
      file.fail(fmt::format("'{}' is not in this file", name));
  }
  return model;
}

std::vector<std::string> files_ending(const std::string& folder, const std::string& ending) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::optional<std::string> safetensors_type(ElementType type) {
  const auto found =
      std::find_if(std::begin(types), std::end(types), [&](const auto& one) { return one.type == type; });
  return found == std::end(types) ? std::nullopt : std::optional<std::string>(found->name);
}

std::optional<ElementType> element_type_of(const std::string& name) {
  const auto found =
      std::find_if(std::begin(types), std::end(types), [&](const auto& one) { return one.name == name; });
  return found == std::end(types) ? std::nullopt : found->type;
}

std::int64_t Tensor::bytes() const {
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  const auto elements = is_empty ? 0 : checked_product(shape);
  return elements ? checked_multiply(*elements, element_bytes).value_or(-1) : -1;
}

Model open_model(const std::string& path) {
  if (!fs::exists(path)) throw InputError(fmt::format("cannot read '{}': it does not exist", path), {});
  Model model;
  if (!fs::is_directory(path)) {
    if (path.ends_with(".json")) return open_index(path);
    read_file(path, model);
    return model;
  }
  const std::vector<std::string> indices = files_ending(path, ".safetensors.index.json");
  if (!indices.empty()) return open_index(indices.front());
  for (const std::string& file : files_ending(path, ".safetensors")) read_file(file, model);
  if (model.files.empty()) throw InputError(fmt::format("'{}' has no files of safetensors", path), {});
  return model;
}

std::string rank_file(std::int64_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }

std::vector<Model> open_ranks(const std::string& folder) {
  std::vector<Model> ranks;
  for (std::int64_t rank = 0; fs::exists(folder + "/" + rank_file(rank)); ++rank) {
    ranks.emplace_back();
    read_file(folder + "/" + rank_file(rank), ranks.back());
  }
  if (ranks.empty())
    throw InputError(fmt::format("'{}' has no {}", folder, rank_file(0)), "files of ranks are named so");
  return ranks;
}

std::string safetensors_header(std::map<std::string, Tensor>& tensors, const std::string& metadata) {
  std::string text = metadata.empty() ? "" : R"("__metadata__":)" + metadata;
  std::int64_t at = 0;
  for (auto& [name, tensor] : tensors) {
    tensor.offset = at;
    at += tensor.bytes();
    fmt::format_to(std::back_inserter(text), R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   text.empty() ? "" : ",", Json(name).dump(), tensor.type, fmt::join(tensor.shape, ","), tensor.offset,
                   at);
  }
  text = "{" + text + "}";
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  std::string header;
  for (std::size_t i = 0; i < length_bytes; ++i) header.push_back(static_cast<char>(text.size() >> 8 * i & 0xFFU));
  header += text;
  for (auto& [name, tensor] : tensors) tensor.offset += static_cast<std::int64_t>(header.size());
  return header;
}

}  // namespace retile::files
