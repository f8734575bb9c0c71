// Handles of the C interface that are freed at the end of their scope.
#pragma once

#include <memory>

#include "retile/c.h"

namespace retile::c::test {

template <typename Handle, void (*release)(Handle*)>
struct Release {
  void operator()(Handle* handle) const { release(handle); }
};
template <typename Handle, void (*release)(Handle*)>
using Owned = std::unique_ptr<Handle, Release<Handle, release>>;

using MeshHandle = Owned<retile_mesh, retile_mesh_free>;
using LayoutHandle = Owned<retile_layout, retile_layout_free>;
using PlanHandle = Owned<retile_plan, retile_plan_free>;
using EngineHandle = Owned<retile_engine, retile_engine_free>;
using TransferHandle = Owned<retile_transfer, retile_transfer_free>;
using RunHandle = Owned<retile_run, retile_run_free>;

}  // namespace retile::c::test
