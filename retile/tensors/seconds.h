// Seconds of tensor programs: how long a compiled program takes on a machine whose figures are of compiled programs.
//
// A program takes the time of its start and of its operations, one after the other. A collective takes its latency in
// groups of that size and its bytes at the rate of that size. What a device writes itself goes at the machine's rate of
// copies with runs of that length.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/machine/machine.h"
#include "retile/tensors/tensor_program.h"

namespace retile::tensors {

// What every device does at once, as far as it takes time.
struct Work {
  enum class Kind { permute, gather, all_to_all, copy };

  Kind kind = Kind::copy;
  std::int64_t size = 1;   // of a collective, the devices of a group; of a copy, the bytes of a run
  std::int64_t bytes = 0;  // of the result, on one device

  bool operator==(const Work&) const = default;
};

// The work of each stage. Compilers are taken to do as XLA does:
// - A reshape is free, and a slice that is stacked or concatenated is copied once.
// - Collectives cut and join along the outermost dimension. Tiles that they cut or join along another one are
//   transposed before or after.
// - Of a switch's branches, the one with the most bytes counts.
std::vector<std::vector<Work>> work_of(const TensorProgram& program, std::int64_t element_size);

// The time of the program on a machine that has figures of programs, by the steps of its plan: that of a stage is at
// its last step, and the start is at the first stage. The least time is that of any program in which some device
// receives `floor` elements, as it must.
PlanTime program_time(const TensorProgram& program, std::int64_t floor, std::int64_t element_size,
                      const Machine& machine);

}  // namespace retile::tensors
