// Processes of a host that may read each other's memory.
#pragma once

#include <cstdint>
#include <string>

namespace retile::transfer {

// A process as others find it. Processes with one `system` find each other by their numbers.
struct ProcessMark {
  std::string system;  // the boot of the host, and the namespace of process numbers; empty: unknown
  std::int64_t process = 0;
  std::uint64_t cookie = 0;   // a random number
  std::uint64_t address = 0;  // where the cookie lies in the process
};

// The mark of this process.
ProcessMark own_process_mark();

// Whether this process may read the memory of that one. A trial: the system may forbid it.
bool can_read(const ProcessMark& mark);

}  // namespace retile::transfer
