#include <fmt/format.h>

#include <map>
#include <utility>

#include "retile/base/error.h"
#include "retile/plan/verify.h"
#include "retile/runtime/local.h"
#include "retile/runtime/replicas.h"
#include "retile/runtime/transport.h"
#include "retile/types/text.h"

namespace retile::runtime {
namespace {

using language::ArrayType;
using language::Program;
using language::Statement;

// A movement and what it needs; with nothing to run where it has no steps.
struct ReadyMovement {
  std::vector<Box> sources;  // of this process's devices
  std::int64_t source_bytes = 0;
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

class EngineTransport final : public Transport {
 public:
  EngineTransport(const Program& program, Engine& engine, MovementPlanner& planner, MemoryMeter& meter)
      : program_(program),
        engine_(engine),
        planner_(planner),
        meter_(meter),
        devices_(engine.devices(program.mesh.device_count())) {}

  const std::vector<Device>& devices() const override { return devices_; }

  Value move(const Statement& statement, const ArrayType& from, const ArrayType& to, Value operand) override {
    const std::vector<ReadyMovement>& movements = prepared(statement, from, to);
    Value value = execute(movements.front(), std::move(operand));
    if (movements.size() == 1) return value;
    Value sums = add_up(std::move(value), movements.back().source_bytes, from.element);  // what was added is freed here
    return execute(movements.back(), std::move(sums));
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
  const std::vector<ReadyMovement>& prepared(const Statement& statement, const ArrayType& from, const ArrayType& to) {
    std::vector<ReadyMovement>& movements = prepared_[&statement];
    if (movements.empty()) {
      for (const Movement& movement : planner_.plan(program_.mesh, statement, from, to)) {
        movements.push_back(prepare(movement, from.element));
      }
    }
    return movements;
  }

  ReadyMovement prepare(const Movement& movement, ElementType element) {
    ensure(find_faults(movement).empty(), "planners and checked programs move data rightly");
    ReadyMovement ready;
    for (const Device device : devices_) ready.sources.push_back(movement.source.box(device));
    ready.source_bytes = checked_bytes(movement.source.local_size(), bytes_of(element));
    ready.target_bytes = checked_bytes(movement.target().local_size(), bytes_of(element));
    if (!movement.steps.empty()) ready.run = engine_.prepare(movement, bytes_of(element));
    return ready;
  }

  // Where nobody else holds the operand, the engine may have its memory.
  Value execute(const ReadyMovement& movement, Value operand) {
    if (!movement.run) return operand;
    if (operand.use_count() > 1) return execute_beside(movement, *operand);
    Tiles tiles;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      tiles.push_back({movement.sources[i], std::move(operand->tiles[i])});
    }
    operand.reset();
    meter_.note(movement.run->execute(tiles).peak_measured);
    TileBuffers results;
    for (Tile& tile : tiles) results.push_back(std::move(tile.bytes));
    return std::make_shared<Array>(meter_, movement.target_bytes, std::move(results));
  }

  Value execute_beside(const ReadyMovement& movement, const Array& operand) {
    TileBuffers results = allocate(movement.target_bytes);
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      sources.push_back(operand.tiles[i].data());
      targets.push_back(results[i].data());
    }
    // Both the engine and the meter count the sources.
    meter_.note(movement.run->execute(sources, targets).peak_measured - movement.source_bytes);
    return std::make_shared<Array>(meter_, movement.target_bytes, std::move(results));
  }

  // Tiles of several partial sums, one after the other.
  Value add_up(Value to_add, std::int64_t sum_bytes, ElementType element) {
    TileBuffers sums = allocate(sum_bytes);
    const std::int64_t size = sum_bytes / bytes_of(element);
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const Buffer& tile = to_add->tiles[i];
      add_rows(element, static_cast<std::int64_t>(tile.size()) / sum_bytes, size, tile.data(), sums[i].data());
    }
    return std::make_shared<Array>(meter_, sum_bytes, std::move(sums));
  }

  TileBuffers allocate(std::int64_t bytes) {
    TileBuffers tiles(devices_.size());
    engine_.processes().do_together([&] {
      for (Buffer& tile : tiles) tile = Buffer(static_cast<std::size_t>(bytes));
    });
    return tiles;
  }

  const Program& program_;
  Engine& engine_;
  MovementPlanner& planner_;
  MemoryMeter& meter_;
  const std::vector<Device> devices_;
  std::map<const Statement*, std::vector<ReadyMovement>> prepared_;
  std::map<const language::Value*, ReplicaCheck> checks_;
};

}  // namespace

std::unique_ptr<Transport> make_engine_transport(const Program& program, Engine& engine, MovementPlanner& planner,
                                                 MemoryMeter& meter) {
  return std::make_unique<EngineTransport>(program, engine, planner, meter);
}

}  // namespace retile::runtime
