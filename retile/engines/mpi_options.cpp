#include "retile/engines/mpi_options.h"

#include "retile/base/scanner.h"

namespace retile::mpi {
namespace {

constexpr const char* device_map_hint = "use row-major, or list the devices rank by rank: 0,2,1,3";

}  // namespace

const char* name_of(Transport transport) {
  switch (transport) {
    case Transport::automatic:
      return "auto";
    case Transport::collectives:
      return "collectives";
    case Transport::messages:
      return "messages";
  }
  return "";
}

std::optional<Transport> find_transport(std::string_view name) {
  for (const Transport transport : {Transport::automatic, Transport::collectives, Transport::messages}) {
    if (name == name_of(transport)) return transport;
  }
  return std::nullopt;
}

std::vector<Device> parse_device_map(const SourceText& source) {
  if (source.text == "row-major") return {};
  Scanner scanner(source);
  if (scanner.looking_at_name()) scanner.fail_here("unknown device map", device_map_hint);
  std::vector<Device> devices;
  do {
    devices.push_back(scanner.index("a device"));
  } while (scanner.accept(","));
  scanner.expect_end("the device map, or ',' and another device");
  return devices;
}

}  // namespace retile::mpi
