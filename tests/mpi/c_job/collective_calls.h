// The collective calls that this rank makes, those of the library included.
#pragma once

namespace retile::c::test {

int collective_calls();
// Those of them that made a communicator.
int new_communicators();

}  // namespace retile::c::test
