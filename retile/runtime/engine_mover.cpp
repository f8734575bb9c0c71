#include <fmt/format.h>

#include <map>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/scanner.h"
#include "retile/plan/verify.h"
#include "retile/runtime/mover.h"
#include "retile/runtime/replicas.h"
#include "retile/types/text.h"

namespace retile::runtime {
namespace {

using language::ArrayType;
using language::Program;

// A movement and what it needs; with nothing to run where it has no steps.
struct ReadyMovement {
  std::vector<Box> sources;           // of this process's devices
  std::vector<std::int64_t> targets;  // their bytes of the target
  std::int64_t source_bytes = 0;      // of the device that has the most
  std::int64_t target_bytes = 0;
  std::unique_ptr<PreparedRun> run;
};

// "they differ along x", for devices that should hold the same and do not.
std::string explain_difference(const Mesh& mesh, const Disagreement& disagreement) {
  std::vector<std::string> axes;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const AxisPart whole = mesh.whole(axis);
    if (mesh.coordinate(disagreement.first, whole) != mesh.coordinate(disagreement.second, whole)) {
      axes.push_back(quote_name(mesh.axis(axis).name));
    }
  }
  return fmt::format(
      "these devices differ along {0}: either cut a dimension of the result along it, or sum over it, or compute the "
      "same on both",
      fmt::join(axes, " and "));
}

class EngineMover final : public Mover {
 public:
  EngineMover(const Program& program, Engine& engine, MemoryMeter& meter)
      : program_(program), engine_(engine), meter_(meter), devices_(engine.devices(program.mesh.device_count())) {}

  const std::vector<Device>& devices() const override { return devices_; }

  SharedArray move(const Movement& movement, const ArrayType& from, const ArrayType& /*to*/,
                   SharedArray operand) override {
    return execute(prepared(movement, from.element), std::move(operand));
  }

  std::optional<Diagnostic> find_disagreement(const language::Value& declaration, const Array& array) override {
    const auto check = checks_.try_emplace(&declaration, program_.mesh, declaration.type, engine_).first;
    const std::optional<Disagreement> found = check->second.run(array.tiles);
    if (!found) return std::nullopt;
    return diagnose(*program_.source, declaration.range,
                    fmt::format("devices {} and {} hold the same part of '{}' and disagree: {}", found->first,
                                found->second, declaration.name, found->text),
                    explain_difference(program_.mesh, *found));
  }

  const Processes& processes() const override { return engine_.processes(); }

 private:
  const ReadyMovement& prepared(const Movement& movement, ElementType element) {
    const std::pair key(&movement, bytes_of(element));
    const auto entry = prepared_.find(key);
    return entry != prepared_.end() ? entry->second : prepared_.emplace(key, prepare(movement, element)).first->second;
  }

  ReadyMovement prepare(const Movement& movement, ElementType element) {
    ensure(find_faults(movement).empty(), "planners and checked programs move data rightly");
    ReadyMovement ready;
    for (const Device device : devices_) {
      ready.sources.push_back(box_of_tile(movement.source, device));
      ready.targets.push_back(checked_bytes(movement.target().size(device), bytes_of(element)));
    }
    ready.source_bytes = checked_bytes(movement.source.local_size(), bytes_of(element));
    ready.target_bytes = checked_bytes(movement.target().local_size(), bytes_of(element));
    if (!movement.steps.empty()) ready.run = engine_.prepare(movement, bytes_of(element));
    return ready;
  }

  // Where nobody else holds the operand, the engine may have its memory.
  SharedArray execute(const ReadyMovement& movement, SharedArray operand) {
    if (!movement.run) return operand;
    if (operand.use_count() > 1) return execute_beside(movement, *operand);
    Tiles tiles;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      tiles.push_back({movement.sources[i], std::move(operand->tiles[i])});
    }
    operand.reset();
    meter_.note(movement.run->execute(tiles).peak_measured);
    movement.run->free_scratch();
    TileBuffers results;
    for (Tile& tile : tiles) results.push_back(std::move(tile.bytes));
    return std::make_shared<Array>(meter_, movement.target_bytes, std::move(results));
  }

  SharedArray execute_beside(const ReadyMovement& movement, const Array& operand) {
    TileBuffers results = allocate(movement.targets);
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      sources.push_back(operand.tiles[i].data());
      targets.push_back(results[i].data());
    }
    // Both the engine and the meter count the sources.
    meter_.note(movement.run->execute(sources, targets).peak_measured - movement.source_bytes);
    movement.run->free_scratch();
    return std::make_shared<Array>(meter_, movement.target_bytes, std::move(results));
  }

  TileBuffers allocate(const std::vector<std::int64_t>& bytes) {
    TileBuffers tiles(devices_.size());
    engine_.processes().do_together([&] {
      for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = Buffer(static_cast<std::size_t>(bytes[i]));
    });
    return tiles;
  }

  const Program& program_;
  Engine& engine_;
  MemoryMeter& meter_;
  const std::vector<Device> devices_;
  std::map<std::pair<const Movement*, std::int64_t>, ReadyMovement> prepared_;  // by element size
  std::map<const language::Value*, ReplicaCheck> checks_;
};

}  // namespace

std::unique_ptr<Mover> make_engine_mover(const Program& program, Engine& engine, MemoryMeter& meter) {
  return std::make_unique<EngineMover>(program, engine, meter);
}

}  // namespace retile::runtime
