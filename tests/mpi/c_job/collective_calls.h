// The collective calls that this rank makes, those of the library included.
#pragma once

namespace retile::c::test {

int collective_calls();

}  // namespace retile::c::test
