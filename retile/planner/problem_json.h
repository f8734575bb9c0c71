// Problems inside larger JSON values.
#pragma once

#include <functional>
#include <string>

#include "retile/base/json.h"
#include "retile/planner/problem.h"

namespace retile {

// Reads a layout that is given as text: that of `side`, "src" or "dst", on the mesh under `mesh_key`. Throws
// InputError.
using LayoutTextReader =
    std::function<Layout(const JsonReader& problem, const std::string& side, const std::string& mesh_key)>;

// Reads a problem like parse_problem(), but throws InputErrors with all faults that do not follow from another. If
// `read_text` is null, layouts must be lists of axes or boxes.
Problem read_problem(const JsonReader& reader, const LayoutTextReader& read_text);

// All keys that read_problem() reads.
constexpr const char* problem_keys =
    "format, id, mesh, dst_mesh, shape, src, dst, src_view, dst_view, src_sum, dst_sum, src_devices, dst_devices, "
    "src_boxes, dst_boxes, src_cyclic, dst_cyclic, src_tiles, dst_tiles, src_halo, dst_halo, src_wrap, "
    "dst_wrap, src_order, dst_order, uneven, reduce, dtype";

}  // namespace retile
