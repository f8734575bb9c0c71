// Plans as code in other languages: complete, without retile, and made to be read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "retile/plan/plan.h"
#include "retile/tensors/lowering.h"
#include "retile/types/element_type.h"

namespace retile::emission {

enum class Target {
  jax,        // a Python function: shard_map and collectives of lax
  mpi,        // a C++ function: derived datatypes and plain MPI
  stablehlo,  // a module of what each partition does
  mlir,       // the same in the mesh dialect of MLIR
};

constexpr std::string_view target_names = "jax, mpi, stablehlo, mlir";

const char* name_of(Target target);
std::optional<Target> find_target(std::string_view name);

// Moves an array of these elements as the plan says. Throws InputError with the reason, and with what can, where the
// target cannot say the plan. The form is that of JAX's code; the others have one each.
std::string emit(const Plan& plan, ElementType element, Target target,
                 tensors::ProgramForm form = tensors::ProgramForm::collectives);

}  // namespace retile::emission
