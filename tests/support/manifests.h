// Random manifests, and what can be said of them by counting elements.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/transfer/manifest.h"
#include "tests/support/problems.h"

namespace retile::test {

// A manifest of up to six kinds of arrays with up to four of each, in any layouts of `world` devices.
transfer::Manifest any_manifest(RandomProblems& random, std::int64_t world);
// A manifest on up to eight devices.
transfer::Manifest any_manifest(RandomProblems& random);

// Bytes of target tiles that each device does not hold, counted element by element.
std::vector<std::int64_t> lacking_bytes(const transfer::Manifest& manifest);

// The least that the busiest device sends, by all sets of devices: what only they hold, shared evenly.
std::int64_t least_busiest(const transfer::Manifest& manifest);

// What each host must get from others, with every element crossing once, element by element.
std::vector<std::int64_t> crossing_bytes(const transfer::Manifest& manifest, const std::vector<std::int64_t>& hosts);

}  // namespace retile::test
