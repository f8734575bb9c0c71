// Plans to tensor programs: which collectives, rounds of permutations, slices, joins and branches are used.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

#include "retile/plan/executor.h"
#include "retile/tensors/tensor_program.h"

namespace retile::tensors {

enum class ProgramForm {
  collectives,  // the plan's collectives as they are
  fast,         // few passes over memory, as measured with XLA on CPU devices
  lean,         // little is held beside the tiles: what moves does so in parts, one after the other
};

constexpr std::string_view program_form_names = "collectives, fast, lean";

const char* name_of(ProgramForm form);
std::optional<ProgramForm> find_program_form(std::string_view name);

// The form that is taken on a platform of JAX's ("cpu", "gpu", "tpu") for tiles of so many bytes unless told otherwise.
// On GPUs and TPUs collectives stay collectives: no figure says that anything else is faster there. On CPU devices:
// - Inside a program collectives stay, too. XLA gives the operations around a collective the order in memory that it
//   needs, so that copies before and after it, which other forms avoid, are not made in the first place; and every
//   round waits for all devices. In bench/python/transformer.py the fast form took 1.27 times as long as collectives
//   (medians of 15 steps on 2 busy cores).
// - Alone, rounds of small tiles take as long as devices wait for each other, so that small tiles keep their
//   collectives. The bound rests on a few sizes of one all-to-all on 2 busy cores; bench/python/reshard.py times all.
ProgramForm form_for(std::string_view platform, std::int64_t tile_bytes, Surroundings surroundings);

// The executor of tensor programs. It has no messages: every round of an exchange is a permutation of parts of tiles,
// and compilers know collectives better.
Executor executor_of_tensors();

// The abilities of a language, and what its compiler does well.
struct LoweringOptions {
  std::string_view language = "JAX";  // in refusals
  // Groups of up to so many devices send each other boxes by permutations, where one collective would need more memory.
  std::int64_t most_permuted = 1;
  // Along inner dimensions, collectives cut and join by themselves. Otherwise boxes are stacked in front for them.
  bool has_inner_dimensions = true;
  // Boxes are put in each device's order by a branch for each order, if there are no more. Otherwise they are picked.
  std::size_t most_branches = 0;
  // Beyond so many boxes to be sent, each is cut after the one before was received.
  std::size_t most_cut_at_once = 2;
  // Boxes with runs of so many bytes are concatenated; shorter runs are interleaved by a transposition.
  std::int64_t long_run_bytes = 512;
  // Nothing larger than the target's tile divided by this is sent at once; 0: whatever the size.
  std::int64_t parts = 0;
  // Whether a collective over these groups can be said; all can where it is empty.
  std::function<bool(const Groups&)> takes_groups;
};

LoweringOptions options_for(ProgramForm form);

// The plan for elements of this many bytes. Its lists may be absent. Tiles of a grid are padded where the array ends
// before it does. Throws InputError where tiles are not alike on all devices otherwise.
TensorProgram lower(const Plan& plan, std::int64_t element_size, const LoweringOptions& options);

}  // namespace retile::tensors
