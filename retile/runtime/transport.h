// How a program's arrays get from device to device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/engines/engine.h"
#include "retile/language/program.h"
#include "retile/runtime/movements.h"
#include "retile/runtime/value.h"

namespace retile::runtime {

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // Whose tiles live in this process, ascending.
  virtual const std::vector<Device>& devices() const = 0;

  // A Redistribute, a Collective or an AllReduce statement: from the operand's type to the result's. The operand's
  // memory is reused where nobody else holds it.
  virtual Value move(const language::Statement& statement, const language::ArrayType& from,
                     const language::ArrayType& to, Value operand) = 0;

  // What is wrong with a value that a statement has computed, where its type says that devices hold the same and they
  // do not.
  virtual std::optional<Diagnostic> find_disagreement(const language::Value& declaration, const Array& array) = 0;

  virtual const Processes& processes() const { return one_process(); }
};

// Moves tiles on the engine. Movements are planned and prepared when they are first met and kept for the statement.
// What it is made with must outlive it.
std::unique_ptr<Transport> make_engine_transport(const language::Program& program, Engine& engine,
                                                 MovementPlanner& planner, MemoryMeter& meter);

// Moves nothing and has no devices: the meter gets what the engine predicts for the same movements.
std::unique_ptr<Transport> make_predicting_transport(const language::Program& program, const Engine& engine,
                                                     MovementPlanner& planner, MemoryMeter& meter);

// Puts every array together and cuts it anew, adds partial sums one by one: no planner and no engine, all devices in
// this process. What engines do is checked against it.
std::unique_ptr<Transport> make_slicing_transport(const language::Program& program, MemoryMeter& meter);

}  // namespace retile::runtime
