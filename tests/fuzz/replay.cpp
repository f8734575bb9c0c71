// Gives a fuzzer's seeds to it once each, in a build that has no libFuzzer: replay FOLDER.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);  // the last one is where it stopped
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    ++count;
  }
  return count > 0 ? 0 : 1;
}
