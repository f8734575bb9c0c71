#include "retile/base/unknown_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "retile/base/nearest_name.h"

namespace retile {

void find_unknown_keys(const SourceText& source, JsonObject& object, std::string_view known, InputFaults& faults) {
  std::vector<std::string> missing = split_names(known);
  const auto take = [&](const std::string& key) {
    const auto found = std::find(missing.begin(), missing.end(), key);
    if (found == missing.end()) return false;
    missing.erase(found);
    return true;
  };
  std::vector<JsonMember*> unknown;
  for (JsonMember& member : object) {
    if (!take(member.key)) unknown.push_back(&member);
  }
  for (JsonMember* member : unknown) {
    const auto meant = nearest_name(member->key, missing);
    faults.add(diagnose(source, member->key_range, fmt::format("unknown key \"{}\"", member->key),
                        meant ? fmt::format("did you mean \"{}\"?", *meant) : fmt::format("there are {}", known)));
    if (meant) member->key = *meant;
    take(member->key);
  }
}

}  // namespace retile
