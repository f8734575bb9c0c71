#include "tools/retile/engine_contender.h"

#include "retile/base/error.h"

namespace retile::command {

bool is_engine_contender(const std::string& name) { return name == "alltoallw" || is_contender(name); }

Contender make_engine_contender(const std::string& name, const Problem& problem, Engine& engine) {
  if (name != "alltoallw") return make_contender(name, problem);
  throw RuntimeError(std::string("alltoallw needs the mpi engine, and this is ") + engine.name());
}

}  // namespace retile::command
