#include "retile/engines/mpi/options.h"

namespace retile::mpi {

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

}  // namespace retile::mpi
