// Runs of movements: the tiles of one array from stage to stage, through scratch or donated memory.
#pragma once

#include <cstdint>
#include <memory>

#include "retile/engines/backend.h"
#include "retile/engines/engine.h"

namespace retile {

// `strides` are those of this process's tiles.
std::unique_ptr<PreparedRun> make_movement_run(std::shared_ptr<Backend> backend, const Movement& movement,
                                               std::int64_t element_size, const BufferStrides& strides);

}  // namespace retile
