// Memory of this process, as the system counts it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace retile::files {

// A figure of /proc/self/status, in bytes; 0 where the system does not say.
inline std::int64_t process_figure(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

// The most that has been in use since the process began.
inline std::int64_t peak_memory() { return process_figure("VmHWM"); }

// Bytes that a cap must leave to the program itself: code, libraries, stacks and small allocations.
inline std::int64_t program_memory() {
  constexpr std::int64_t least = 24 << 20;
  constexpr std::int64_t slack = 8 << 20;  // what grows while a run goes on
  // In large steps, so that the next run of the same program is most likely told the same.
  constexpr std::int64_t step = 4 << 20;
  return std::max(least, (process_figure("VmRSS") + slack + step - 1) / step * step);
}

}  // namespace retile::files
