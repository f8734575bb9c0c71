// A .npy file.
#include <algorithm>
#include <cstring>
#include <vector>

#include "retile/runtime/npy.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

using runtime::NpyReader;

runtime::ReadBytes reader_of(const std::string& bytes) {
  return [&bytes](std::int64_t offset, std::span<std::byte> out) {
    require(offset >= 0 && static_cast<std::size_t>(offset) + out.size() <= bytes.size(), "reads stay in the file");
    std::memcpy(out.data(), bytes.data() + offset, out.size());
  };
}

std::vector<std::byte> read_whole(const NpyReader& reader) {
  const Shape& shape = reader.header().shape;
  const Box whole{Shape(shape.size(), 0), shape};
  std::vector<std::byte> elements(static_cast<std::size_t>(volume(whole) * bytes_of(reader.header().element)));
  reader.read_box(whole, elements.data());
  return elements;
}

void check_file(const NpyReader& reader) {
  const Shape& shape = reader.header().shape;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const std::vector<std::byte> elements = read_whole(reader);
  std::string again = runtime::npy_header_text(reader.header().element, shape);
  again.append(reinterpret_cast<const char*>(elements.data()), elements.size());
  const NpyReader written("again.npy", static_cast<std::int64_t>(again.size()), reader_of(again));
  require(written.header().shape == shape && written.header().element == reader.header().element,
          "a header is read back");
  require(read_whole(written) == elements, "elements are read back");
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const std::string bytes = fuzz::text_of(data, size);
  const auto reader = fuzz::try_parse(
      [&] { return runtime::NpyReader("x.npy", static_cast<std::int64_t>(bytes.size()), fuzz::reader_of(bytes)); });
  if (reader) fuzz::check_file(*reader);
  return 0;
}
