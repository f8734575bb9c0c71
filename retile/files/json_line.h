// JSON that names files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace retile::files {

// The value on a line of its own. Names of files may be no UTF-8, which JSON must be: bytes that are none are replaced.
inline std::string json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace retile::files
