#include "retile/files/hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/files/file.h"
#include "retile/grids/grid.h"
#ifdef RETILE_HAS_HDF5
#include "retile/files/hdf5_values.h"
#endif

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
using Handle = Hdf5Handle;

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
  const std::string name = fmt::format("{}/{}", file.path(), path_of(array).substr(1));
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

StoredArray open_dataset(const OpenFile& file, const std::string& inside, const Handle& array) {
  const Handle type(H5Dget_type(array.get()), H5Tclose);
  const Handle space(H5Dget_space(array.get()), H5Sclose);
  const Handle properties(H5Dget_create_plist(array.get()), H5Pclose);
  const auto element = kind_of(type.get());
  if (!element) {
    throw InputError(
        fmt::format("'{}' of '{}' holds {}, which are not known", inside, file.path(), class_name(type.get())),
        "arrays of numbers, truths and texts of one length are; name one of them behind the file");
  }
  StoredArray stored;
  stored.path = file.path();
  stored.format = Format::hdf5;
  stored.element = *element;
  stored.shape = shape_of_space(space.get());
  stored.order = row_major(stored.shape.size());
  read_storage(file, array, properties.get(), stored);
  stored.dimension_names = dimension_names(array, stored.shape.size());
  stored.fill = read_fill(properties.get(), type.get(), element->bytes);
  Json attributes = Json::parse(read_attributes(array));
  Json missing = Json::parse(missing_value(array, *element));
  // Without one, zeros are values like others: xarray would take Zarr's fill value for missing.
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  const bool has_fill = !missing.is_null() || !std::all_of(stored.fill->begin(), stored.fill->end(), is_zero);
  if (!missing.is_null()) attributes["_FillValue"] = std::move(missing);
  stored.metadata = Json{{"hdf5", utf8_of(inside)},
                         {"shape", stored.shape},
                         {"chunks", stored.chunk},
                         {"dtype", numpy_type(*element)},
                         {"fill_value", has_fill ? Json::parse(fill_json(*element, *stored.fill)) : Json()},
                         {"attributes", std::move(attributes)}}
                        .dump();
  return stored;
}

// --- Groups.

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

// The arrays and groups of an open file, found from a path on.
class ContentsReader {
 public:
  explicit ContentsReader(const Hdf5Path& path) : path_(path), file_(path.file) {}

  StoreContents read() {
    visit("");
    if (contents_.arrays.empty())
      throw InputError(fmt::format("'{}' has no arrays", path_in(path_.file, path_.inside)), {});
    return std::move(contents_);
  }

 private:
  void visit(const std::string& name) {
    const std::string inside = path_in(path_.inside, name);
    const Handle object = file_.open_object(inside);
    if (is_array(object)) {
      if (!is_bare_dimension(object)) contents_.arrays.push_back({name, open_dataset(file_, inside, object)});
      return;
    }
    H5O_info_t info{};
    H5Oget_info(object.get(), &info);
    if (!is_group(object) || !seen_.insert(info.addr).second) return;
    contents_.groups.push_back({name, read_attributes(object)});
    for (const std::string& member : members_of(object)) visit(path_in(name, member));
  }

  const Hdf5Path& path_;
  OpenFile file_;
  StoreContents contents_;
  std::set<haddr_t> seen_;  // addresses of groups: links may form cycles
};

}  // namespace

StoreContents open_hdf5(const Hdf5Path& path) { return ContentsReader(path).read(); }

}  // namespace retile::files

#else

namespace retile::files {

StoreContents open_hdf5(const Hdf5Path& path) {
  throw InputError(fmt::format("cannot read '{}': this retile was built without HDF5", path.file), {});
}

}  // namespace retile::files

#endif
