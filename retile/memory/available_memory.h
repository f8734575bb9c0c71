// How much memory the machine has left: runs that cannot fit are refused before they start.
#pragma once

#include <cstdint>
#include <optional>

namespace retile {

// Memory that the system can give without swapping, in bytes; nothing where it does not say.
std::optional<std::int64_t> available_memory();

}  // namespace retile
