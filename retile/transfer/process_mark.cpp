#include "retile/transfer/process_mark.h"

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

#include "retile/copies/host_read.h"

namespace retile::transfer {
namespace {

std::uint64_t random_cookie() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

const std::uint64_t& own_cookie() {
  static const std::uint64_t cookie = random_cookie();
  return cookie;
}

std::string name_of_system() {
  std::error_code unknown;
  const std::string numbers = std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, boot);
  return numbers.empty() || boot.empty() ? "" : boot + " " + numbers;
}

}  // namespace

ProcessMark own_process_mark() {
  // NOLINTNEXTLINE(*-reinterpret-cast): addresses go to other processes as numbers
  return {name_of_system(), getpid(), own_cookie(), reinterpret_cast<std::uintptr_t>(&own_cookie())};
}

bool can_read(const ProcessMark& mark) {
  if (mark.system.empty() || mark.system != name_of_system()) return false;
  std::uint64_t cookie = 0;
  // NOLINTNEXTLINE(*-reinterpret-cast, performance-no-int-to-ptr): likewise
  const auto* source = reinterpret_cast<const std::byte*>(mark.address);
  // NOLINTNEXTLINE(*-reinterpret-cast): its bytes
  auto* target = reinterpret_cast<std::byte*>(&cookie);
  return read_memory(mark.process, source, target, sizeof cookie, sizeof cookie) && cookie == mark.cookie;
}

}  // namespace retile::transfer
