// Problems within JSON that has more in it.
#pragma once

#include <functional>
#include <string>

#include "retile/base/json.h"
#include "retile/planner/problem.h"

namespace retile {

// Reads a layout that is given as a text: of a problem's side, "src" or "dst", on the mesh with this key. Throws
// InputError.
using LayoutTextReader =
    std::function<Layout(const JsonReader& problem, const std::string& side, const std::string& mesh_key)>;

// As parse_problem(), which tells all that is wrong as well, as far as no fault follows from another: InputErrors.
// Without `read_text`, which may be null, layouts are lists of axes or boxes.
Problem read_problem(const JsonReader& reader, const LayoutTextReader& read_text);

// All that it reads.
constexpr const char* problem_keys =
    "format, id, mesh, dst_mesh, shape, src, dst, src_view, dst_view, src_sum, dst_sum, src_devices, dst_devices, "
    "src_boxes, dst_boxes, src_cyclic, dst_cyclic, src_tiles, dst_tiles, dst_halo, dst_wrap, src_order, dst_order, "
    "uneven, reduce, dtype";

}  // namespace retile
