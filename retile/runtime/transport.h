// How a program's arrays get from device to device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/program.h"
#include "retile/planner/planner.h"
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
  // do not. The statement's results have places of their own.
  virtual std::optional<std::string> find_disagreement(const language::Value& declaration, const Array& array) = 0;

  // What the first process that has something says.
  virtual std::optional<std::string> first_of(std::optional<std::string> mine) = 0;
};

// Plans redistributions and moves tiles on the engine. Movements are prepared when they are first met and kept for the
// statement, as long as the program that it belongs to.
std::unique_ptr<Transport> make_engine_transport(const language::Program& program, Engine& engine,
                                                 const PlanOptions& planning, MemoryMeter& meter);

// Puts every array together and cuts it anew, adds partial sums one by one: no planner and no engine, all devices in
// this process. What the other one does is checked against it.
std::unique_ptr<Transport> make_slicing_transport(const language::Program& program, MemoryMeter& meter);

}  // namespace retile::runtime
