// Whether bytes of a file are read again.
#pragma once

namespace retile::files {

enum class Reads {
  again,  // others may read the same bytes later: they stay in the page cache
  once,
};

}  // namespace retile::files
