// The lowering of plans to tensor programs: which collectives, rounds of permutations, slices, joins and branches are
// used.
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
  fast,         // few passes over memory, as measured with XLA
  lean,         // holds little beside the tiles: data moves in parts, one after the other
};

constexpr std::string_view program_form_names = "collectives, fast, lean";

const char* name_of(ProgramForm form);
std::optional<ProgramForm> find_program_form(std::string_view name);

// The form that is taken by default on a platform of JAX ("cpu", "gpu", "tpu") for tiles of so many bytes that move in
// runs of `run_bytes` at least. Elsewhere collectives are kept: nothing was measured there. On CPU devices and GPUs:
// - Inside a program collectives are kept, too. XLA gives the operations around a collective the order in memory that
//   it needs, so that the copies before and after it, which other forms avoid, are not made in the first place. And
//   every round waits for all devices. In bench/python/transformer.py the fast form took 1.27 times as long as
//   collectives (medians of 15 steps on 2 busy cores).
// - Alone, rounds of small tiles take as long as devices wait for each other, so small tiles keep their collectives.
//   The bound rests on a few sizes of one all-to-all on 2 busy cores; bench/python/reshard.py times all.
// - Where runs are shorter than 64 bytes, XLA's slices copy them one by one, and collectives are kept: on 17 of the
//   paper's problems of 8 MB on CPU devices the fast form was as fast by geometric mean, but 1.9 times as slow at
//   worst.
// - Alone, large tiles take the fast form. On eight processes that share one GPU, XLA's own reshard took 1.47 times as
//   long as collectives and 1.85 times as long as the fast form (10 problems of 128 MB on which XLA sends more).
ProgramForm form_for(std::string_view platform, std::int64_t tile_bytes, std::int64_t run_bytes,
                     Surroundings surroundings);

// The executor of tensor programs. It has no messages: every round of an exchange is a permutation of parts of tiles,
// and compilers optimize collectives better.
Executor executor_of_tensors();

// What a language can express, and what its compiler does well.
struct LoweringOptions {
  std::string_view language = "JAX";  // its name, in refusals
  // Groups of up to this many devices send each other boxes by permutations, where one collective would need more
  // memory.
  std::int64_t most_permuted = 1;
  // Whether collectives can cut and join along inner dimensions. Otherwise boxes are stacked along a dimension in
  // front.
  bool has_inner_dimensions = true;
  // The most branches by which boxes are put in each device's order, one for each order. With more orders, boxes are
  // picked.
  std::size_t most_branches = 0;
  // The most boxes to be sent that are cut at once. Beyond, each is cut after the one before was received.
  std::size_t most_cut_at_once = 2;
  // Boxes with runs of at least this many bytes are concatenated; shorter runs are interleaved by a transposition.
  std::int64_t long_run_bytes = 512;
  // The largest box that is sent at once is the target's tile divided by this; 0: any size.
  std::int64_t parts = 0;
  // Whether a collective over these groups can be expressed; empty: every one can.
  std::function<bool(const Groups&)> takes_groups;
};

LoweringOptions options_for(ProgramForm form);

// The plan as a program for elements of this many bytes. The plan's lists may be absent. Where the array ends inside
// tiles of a grid, those are padded. Throws InputError where tiles differ between devices in another way.
TensorProgram lower(const Plan& plan, std::int64_t element_size, const LoweringOptions& options);

}  // namespace retile::tensors
