// How a program's arrays get from device to device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/engines/engine.h"
#include "retile/language/lowering.h"
#include "retile/runtime/shared_array.h"

namespace retile::runtime {

class Mover {
 public:
  Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  virtual ~Mover() = default;

  // Whose tiles live in this process, ascending.
  virtual const std::vector<Device>& devices() const = 0;

  // Moves a value from the type of a statement's operand to that of its result. The operand's memory is reused
  // where nobody else holds it.
  virtual SharedArray move(const Movement& movement, const language::ArrayType& from, const language::ArrayType& to,
                           SharedArray operand) = 0;

  // What is wrong with a value that a statement has computed, where its type says that devices hold the same and they
  // do not.
  virtual std::optional<Diagnostic> find_disagreement(const language::Value& declaration, const Array& array) = 0;

  virtual const Processes& processes() const { return one_process(); }
};

// Moves tiles on the engine. Movements are prepared when they are first met and kept. What it is made with must outlive
// it.
std::unique_ptr<Mover> make_engine_mover(const language::Program& program, Engine& engine, MemoryMeter& meter);

// Puts every array together and cuts it anew, adds parts of sums one by one: no movements and no engine, all devices in
// this process. What engines do is checked against it.
std::unique_ptr<Mover> make_slicing_mover(const language::Program& program, MemoryMeter& meter);

}  // namespace retile::runtime
