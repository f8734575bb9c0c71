#include "retile/files/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "retile/files/file.h"
#include "retile/files/hdf5.h"
#include "retile/files/python_json.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// `around` are the folders around this one, without links.
void add_contents(const std::string& store, const std::string& name, std::vector<fs::path> around,
                  StoreContents& contents) {
  const std::string folder = name.empty() ? store : store + "/" + name;
  around.push_back(fs::canonical(folder));
  if (std::find(around.begin(), around.end() - 1, around.back()) != around.end() - 1) {
    throw InputError(fmt::format("'{}' leads back to a folder around it", folder), {});
  }
  const std::string file = metadata_file(folder);
  if (!file.empty() && !is_group(folder)) {
    contents.arrays.push_back({name, open_array(folder)});
    return;
  }
  if (!file.empty()) contents.groups.push_back({name, ""});
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& inner : names) add_contents(store, path_in(name, inner), around, contents);
}

// The text of one more file of the source, as it is; nothing where it is not there.
void copy_if_there(const std::string& source, const std::string& name, std::vector<MetadataFile>& files) {
  if (fs::exists(source + "/" + name)) files.push_back({name, read_text(source + "/" + name)});
}

// Consolidated metadata with the arrays as they are now. Names are from the group that has it.
void replace_arrays(Json& consolidated, const std::string& group, const std::string& suffix,
                    const std::vector<ArrayJob>& arrays) {
  for (const ArrayJob& array : arrays) {
    const bool is_inside = group.empty() || array.name.starts_with(group + "/");
    if (!is_inside) continue;
    const std::string key = array.name.substr(group.empty() ? 0 : group.size() + 1) + suffix;
    if (consolidated.contains(key)) consolidated[key] = Json::parse(hide_words(array.target.metadata));
  }
}

Json parse(const std::string& path) {
  Json value = Json::parse(hide_words(read_text(path)), nullptr, false);
  if (value.is_discarded()) throw InputError(fmt::format("cannot read '{}': it is no JSON", path), {});
  return value;
}

void add_group(const std::string& source, const std::string& group, const std::vector<ArrayJob>& arrays,
               std::vector<MetadataFile>& files) {
  copy_if_there(source, path_in(group, ".zgroup"), files);
  copy_if_there(source, path_in(group, ".zattrs"), files);
  const std::string consolidated = path_in(group, ".zmetadata");
  if (fs::exists(source + "/" + consolidated)) {
    Json value = parse(source + "/" + consolidated);
    if (value.contains("metadata")) replace_arrays(value["metadata"], group, "/.zarray", arrays);
    files.push_back({consolidated, show_words(value.dump(2)) + "\n"});
  }
  const std::string name = path_in(group, "zarr.json");
  if (!fs::exists(source + "/" + name)) return;
  Json value = parse(source + "/" + name);
  if (value.contains("consolidated_metadata") && value["consolidated_metadata"].is_object()) {
    replace_arrays(value["consolidated_metadata"]["metadata"], group, "", arrays);
  }
  files.push_back({name, show_words(value.dump(2)) + "\n"});
}

// A group that another format has.
void add_group(const StoreContents::Group& group, Format format, std::vector<MetadataFile>& files) {
  const Json attributes = Json::parse(group.attributes);
  if (format == Format::zarr2) {
    if (!attributes.empty()) files.push_back({path_in(group.name, ".zattrs"), show_words(attributes.dump(2)) + "\n"});
    files.push_back({path_in(group.name, ".zgroup"), "{\n  \"zarr_format\": 2\n}\n"});
    return;
  }
  const Json metadata{{"attributes", attributes}, {"zarr_format", 3}, {"node_type", "group"}};
  files.push_back({path_in(group.name, "zarr.json"), show_words(metadata.dump(2)) + "\n"});
}

// Attributes of a Zarr v2 array stand in a file of their own.
void add_attributes(const std::string& source, const ArrayJob& array, std::vector<MetadataFile>& files) {
  if (array.target.format != Format::zarr2) return;
  if (array.source.format == Format::zarr2) return copy_if_there(source, path_in(array.name, ".zattrs"), files);
  Json attributes = Json::parse(attributes_text(array.source));
  if (array.source.format == Format::hdf5) attributes.erase("_FillValue");  // the array's own fill value says it
  if (!array.source.dimension_names.empty()) attributes["_ARRAY_DIMENSIONS"] = array.source.dimension_names;
  if (!attributes.empty()) files.push_back({path_in(array.name, ".zattrs"), show_words(attributes.dump(2)) + "\n"});
}

}  // namespace

StoreContents open_store(const std::string& path) {
  if (const auto inside = find_hdf5(path)) return open_hdf5(*inside);
  StoreContents contents;
  if (!fs::is_directory(path) || !is_group(path)) {
    contents.arrays.push_back({"", open_array(path)});
    return contents;
  }
  add_contents(path, "", {}, contents);
  if (contents.arrays.empty()) throw InputError(fmt::format("'{}' is a group without arrays", path), {});
  return contents;
}

std::vector<MetadataFile> target_metadata(const std::string& source, const std::vector<StoreContents::Group>& groups,
                                          const std::vector<ArrayJob>& arrays) {
  std::vector<MetadataFile> files;
  const Format format = arrays.front().target.format;
  if (format == Format::npy) return files;
  for (const ArrayJob& array : arrays) {
    add_attributes(source, array, files);
    files.push_back({path_in(array.name, format == Format::zarr2 ? ".zarray" : "zarr.json"), array.target.metadata});
  }
  // The outermost group last: it makes the store one.
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    group->attributes.empty() ? add_group(source, group->name, arrays, files) : add_group(*group, format, files);
  }
  return files;
}

}  // namespace retile::files
