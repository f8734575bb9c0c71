// Problems within JSON that has more in it.
#pragma once

#include "retile/base/json.h"
#include "retile/planner/problem.h"

namespace retile {

// As parse_problem(), which tells all that is wrong as well, as far as no fault follows from another: InputErrors.
Problem read_problem(const JsonReader& reader);

// All that it reads.
constexpr const char* problem_keys =
    "format, id, mesh, dst_mesh, shape, src, dst, src_view, dst_view, src_sum, dst_sum, src_devices, dst_devices, "
    "src_boxes, dst_boxes, src_cyclic, dst_cyclic, src_tiles, dst_tiles, dst_halo, dst_wrap, src_order, dst_order, "
    "uneven, reduce, dtype";

}  // namespace retile
