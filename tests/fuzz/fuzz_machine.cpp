// A machine as JSON: read, written, read again.
#include <cmath>

#include "retile/machine/machine.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const auto machine = fuzz::try_parse([&] { return parse_machine({"machine", fuzz::text_of(data, size)}); });
  if (!machine) return 0;
  const std::string text = to_json(*machine);
  fuzz::require(to_json(parse_machine({"written", text})) == text, "a machine reads back: " + text);
  fuzz::require(static_cast<std::int64_t>(machine->host_numbers().size()) == machine->device_count(),
                "all have a host");
  for (const std::int64_t run : {std::int64_t{1}, std::int64_t{100}, std::int64_t{1} << 40U}) {
    fuzz::require(machine->copy_rate(run) > 0, "copies take a rate");
  }
  return 0;
}
