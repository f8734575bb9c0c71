// How an allreduce is done: redistribution of the partial sums, local addition, and a gathering of the sums.
#pragma once

#include "retile/language/program.h"
#include "retile/types/distributed_type.h"

namespace retile::language {

// The devices' tiles, n elements each, seen as an array in which every device has a row of its own. "Others" are the
// mesh axes that are not summed over now, N their product, and k that of the axes that are:
//
//   partial    [1{others}N, 1{summed}k, n]       what the devices hold
//   to_add     [1{others}N, k, (n/k){summed}n]   n instead of (n/k){summed}n where k does not divide n
//   sums       [1{others}N, (n/k){summed}n]      dimension 1 of to_add added up in order
//   result     [1{others}N, n]
//
// The partial tiles of a sum are numbered row-major along the summed axes, the first axis slowest: every device adds in
// that order, so replicas of the result have the same bits.
struct AllReduceTypes {
  DistributedType partial;
  DistributedType to_add;
  DistributedType sums;
  DistributedType result;
};

// Throws InputError where the whole has too many elements.
AllReduceTypes all_reduce_types(const Mesh& mesh, const ArrayType& operand, const ArrayType& result);

}  // namespace retile::language
