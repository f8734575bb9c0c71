#include "retile/files/codec_option.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/base/error.h"

namespace retile::files {

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
  // Blosc alone has a codec inside.
  const std::string& name = parts.size() > 1 && parts[0] != "blosc" ? text.text : parts[0];
  if (name == "blosc") {
    codec = {CodecKind::blosc, level.value_or(5), 0, "lz4", 1};
    if (parts.size() > 1) codec.inner = parts[1];
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
  std::vector<Codec> codecs{codec};
  const std::string fault = fault_of(codecs);
  if (!fault.empty()) throw fail(fault);
  return codecs;
}

}  // namespace retile::files
