// retile moves sharded arrays between layouts: the front door of the library.
//
//   text ──parse_problem──▶ Problem ──make_plan──▶ Plan ──find_faults──▶ faults
//                                                   └──Redistribution──▶ arrays of your own, moved
//
//   what                                                      where it is, and where another one would go
//   a mesh of devices, a type of an array on it               types/mesh.h, types/distributed_type.h, types/text.h
//   a layout, which may be more than a type                   types/layout.h
//   who holds which box, whatever layout describes it         types/placement.h, types/box.h
//   an array in one layout, wanted in another                 planner/problem.h
//   the steps between them, and planners that find them       plan/plan.h, planner/planner.h
//   which device gets which tile, where that is free          planner/relabelling.h
//   what a step costs, in elements or in seconds              costs/cost_model.h, costs/seconds.h
//   hosts, links and rates, for costs in seconds              machine/machine.h
//   what memory a run takes, and limits as users write them   plan/memory.h, planner/memory_limit.h
//   whether a plan is right                                   plan/verify.h
//   plans as JSON, one a line                                 plan/json.h
//   plans in the operations of compilers of tensors           tensors/lowering.h, tensors/tensor_program.h
//   how long compiled programs of these take                  tensors/seconds.h
//   rounds in which devices send one message each             plan/rounds.h
//   plans as pictures                                         draw.h
//   engines that move bytes                                   engines/engine.h, engines/threads/threads.h
//   messages of the caller's own: one device's part of a run  engines/device_schedule.h, engines/combine.h
//   what XLA does with a redistribution, and why              explanation/explanation.h, explanation/log.h
//   the plans that XLA would make                             contenders/xla_rules.h
//   shardings as XLA, JAX, Shardy, DTensor and MLIR say them  interchange/notation.h, interchange/dtensor.h
//   memory of the caller's own, moved                         redistribute.h; under MPI mpi.h, not included here
//   matrices of ScaLAPACK as layouts                          scalapack.h
//   the arrays of a whole model, moved                        transfer.h
//   the same over messages of the caller's own                transfer/rank_transfer.h, transfer/claims.h
//   arrays in files, from one chunking to another             rechunk.h
//   checkpoints of safetensors, read                          files/checkpoint.h
//   errors                                                    base/diagnostic.h (the input), base/error.h (others)
//
// Everything throws: InputError where what was given is at fault, RuntimeError where a run fails, InternalError where
// retile itself is. Nothing prints or exits. Values print: to_string() for people, to_json() for programs.
#pragma once

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/contenders/xla_rules.h"
#include "retile/copies/block_scales.h"
#include "retile/copies/combine.h"
#include "retile/costs/cost_model.h"
#include "retile/draw.h"
#include "retile/engines/engine.h"
#include "retile/engines/threads/threads.h"
#include "retile/explanation/explanation.h"
#include "retile/explanation/log.h"
#include "retile/files/checkpoint.h"
#include "retile/interchange/dtensor.h"
#include "retile/interchange/notation.h"
#include "retile/machine/machine.h"
#include "retile/plan/json.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"
#include "retile/plan/rounds.h"
#include "retile/plan/text.h"
#include "retile/plan/verify.h"
#include "retile/planner/memory_limit.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"
#include "retile/planner/relabelling.h"
#include "retile/rechunk.h"
#include "retile/redistribute.h"
#include "retile/scalapack.h"
#include "retile/schedule/device_schedule.h"
#include "retile/tensors/lowering.h"
#include "retile/tensors/seconds.h"
#include "retile/tensors/tensor_program.h"
#include "retile/transfer.h"
#include "retile/transfer/claims.h"
#include "retile/transfer/message_plan.h"
#include "retile/transfer/process_mark.h"
#include "retile/transfer/rank_transfer.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"
#include "retile/types/mesh.h"
#include "retile/types/placement.h"
#include "retile/types/text.h"
#include "retile/version.h"
