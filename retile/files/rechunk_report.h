// Options of a run of rechunking beyond its plan, and its report.
#pragma once

#include <cstdint>

namespace retile::files {

// What to do if the target exists, finished or not.
enum class Existing {
  refuse,     // leave it alone
  overwrite,  // replace it when the new one is complete
  resume,     // go on with an unfinished one, if it was made by the same request
};

struct RechunkReport {
  std::int64_t read_bytes = 0;     // decoded, over all passes
  std::int64_t written_bytes = 0;  // before they were encoded
  double seconds = 0;
  std::int64_t peak_bytes = 0;  // the most memory that the process has had in use since it began
  bool verified = false;
};

}  // namespace retile::files
