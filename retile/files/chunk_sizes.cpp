#include "retile/files/chunk_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "retile/base/nearest_name.h"

namespace retile::files {
namespace {

constexpr const char* advice =
    "write sizes by position (8760,10,10) or by dimension (time=8760,lat=10); -1 is the whole dimension";

std::int64_t parse_size(const SourceText& text, SourceRange range) {
  const char* begin = text.text.data() + range.begin;
  const char* end = text.text.data() + range.end;
  std::int64_t size = 0;
  const auto [stop, error] = std::from_chars(begin, end, size);
  if (begin == end || stop != end || error != std::errc() || size == 0 || size < -1) {
    throw InputError(diagnose(text, range, fmt::format("'{}' is no size of a chunk", std::string(begin, end)), advice));
  }
  return size;
}

std::size_t find_dimension(const ChunkSizes& chunks, std::size_t entry, const StoredArray& array) {
  const auto& names = array.dimension_names;
  const auto found = std::find(names.begin(), names.end(), chunks.names[entry]);
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

ChunkSizes parse_chunk_sizes(const SourceText& text) {
  ChunkSizes chunks{text, {}, {}, {}};
  for (std::size_t begin = 0; begin <= text.text.size();) {
    const std::size_t end = std::min(text.text.find(',', begin), text.text.size());
    const SourceRange entry{begin, end};
    const std::size_t sign = text.text.find('=', begin);
    const bool is_named = sign < end;
    if (begin > 0 && is_named == chunks.names.empty()) {
      throw InputError(diagnose(text, entry, "sizes are by position or by dimension, not both", advice));
    }
    if (is_named) chunks.names.push_back(text.text.substr(begin, sign - begin));
    chunks.sizes.push_back(parse_size(text, {is_named ? sign + 1 : begin, end}));
    chunks.ranges.push_back(entry);
    begin = end + 1;
  }
  return chunks;
}

bool fits(const ChunkSizes& chunks, const StoredArray& array) {
  if (chunks.names.empty()) return chunks.sizes.size() == array.shape.size();
  for (std::size_t i = 0; i < chunks.names.size(); ++i) {
    if (find_dimension(chunks, i, array) < array.shape.size()) return true;
  }
  return false;
}

Shape chunk_shape(const ChunkSizes& chunks, const StoredArray& array) {
  Shape shape = array.chunk;
  for (std::size_t i = 0; i < chunks.sizes.size(); ++i) {
    const std::size_t dimension = chunks.names.empty() ? i : find_dimension(chunks, i, array);
    if (dimension >= shape.size()) continue;
    const std::int64_t whole = std::max<std::int64_t>(1, array.shape[dimension]);
    shape[dimension] = chunks.sizes[i] == -1 ? whole : std::min(whole, chunks.sizes[i]);
  }
  return shape;
}

void require_fit(const ChunkSizes& chunks, const std::vector<StoreContents::NamedArray>& arrays) {
  if (chunks.names.empty()) {
    if (std::any_of(arrays.begin(), arrays.end(), [&](const auto& one) { return fits(chunks, one.array); })) return;
    const StoredArray& first = arrays.front().array;
    const std::size_t rank = first.shape.size();
    throw InputError(diagnose(
        chunks.text, {0, chunks.text.text.size()},
        fmt::format("{} for {}", chunks.sizes.size() == 1 ? "1 size" : fmt::format("{} sizes", chunks.sizes.size()),
                    rank == 1 ? "1 dimension" : fmt::format("{} dimensions", rank)),
        fmt::format("'{}' has shape ({})", first.path, fmt::join(first.shape, ", "))));
  }
  std::vector<std::string> known;
  for (const auto& [path, array] : arrays) {
    for (const std::string& name : array.dimension_names) {
      if (!name.empty() && std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
  }
  for (std::size_t i = 0; i < chunks.names.size(); ++i) {
    if (std::find(known.begin(), known.end(), chunks.names[i]) != known.end()) continue;
    const auto meant = nearest_name(chunks.names[i], known);
    const std::string hint = known.empty() ? "its dimensions have no names: write sizes by position, as in 8760,10,10"
                             : meant       ? fmt::format("did you mean '{}'?", *meant)
                                           : fmt::format("dimensions are {}", fmt::join(known, ", "));
    throw InputError(diagnose(chunks.text, chunks.ranges[i],
                              fmt::format("'{}' has no dimension '{}'", arrays.front().array.path, chunks.names[i]),
                              hint));
  }
}

}  // namespace retile::files
