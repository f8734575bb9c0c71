// Plans as code in other languages: complete, independent of retile, and made to be read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "retile/plan/plan.h"
#include "retile/tensors/lowering.h"
#include "retile/types/element_type.h"

namespace retile::emission {

enum class Target {
  jax,        // a Python function with shard_map and collectives of jax.lax
  mpi,        // a C++ function with derived datatypes and plain MPI
  stablehlo,  // a StableHLO module of what each partition does
  mlir,       // a module in the mesh dialect of MLIR
};

constexpr std::string_view target_names = "jax, mpi, stablehlo, mlir";

const char* name_of(Target target);
std::optional<Target> find_target(std::string_view name);

// Code that moves an array of these elements as the plan says. Throws InputError where the target cannot express the
// plan, with the reason and the targets that can. `form` is for JAX's code; the other targets have one form each.
std::string emit(const Plan& plan, ElementType element, Target target,
                 tensors::ProgramForm form = tensors::ProgramForm::collectives);

}  // namespace retile::emission
