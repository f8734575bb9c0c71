// Replicas agree: where a type has several devices hold the same part of an array, they hold the same bits (d-spmd of
// fig:spmd asks for one global array that all tiles are slices of).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/program.h"
#include "retile/runtime/shared_array.h"

namespace retile::runtime {

struct Disagreement {
  Device first = 0;
  Device second = 0;
  std::string text;  // "element [0, 3] is 1.5 on device 0 and 2.5 on device 1"
};

// Compares every device's tile with that of another that should hold the same, by passing tiles around among replicas:
// the engine may have them in other processes. In pieces, so that little memory is needed whatever the tiles' size.
class ReplicaCheck {
 public:
  ReplicaCheck(const Mesh& mesh, const language::ArrayType& type, Engine& engine);

  // The first disagreement that this process finds. Collective.
  std::optional<Disagreement> run(const TileBuffers& tiles);

 private:
  std::optional<Disagreement> compare(std::size_t tile, const std::byte* mine, const std::byte* other,
                                      std::int64_t first_element, std::int64_t count) const;

  Engine& engine_;
  const language::ArrayType type_;
  const std::vector<Device> devices_;      // of this process
  std::vector<Device> others_;             // whose tile each device is compared with, by device
  std::int64_t piece_ = 0;                 // elements
  std::unique_ptr<PreparedRun> rotation_;  // null where there are no replicas
};

}  // namespace retile::runtime
