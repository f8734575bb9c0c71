// Goes through a program's statements: values in, values out.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "retile/engines/threads/worker_pool.h"
#include "retile/language/program.h"
#include "retile/runtime/runtime.h"
#include "retile/runtime/transport.h"
#include "retile/runtime/value.h"

namespace retile::runtime {

class Interpreter {
 public:
  // All must outlive it. Throws InputError where calls nest too deep.
  Interpreter(const language::Program& program, Transport& transport, MemoryMeter& meter,
              const ProgramOptions& options);

  std::vector<Value> run_main(std::vector<Value> arguments);

 private:
  std::vector<Value> run(int function, std::vector<Value> arguments);
  std::vector<Value> run(const language::Function& function, const language::Statement& statement,
                         std::vector<Value> operands);
  std::vector<Value> compute(const language::Function& function, const language::Statement& statement,
                             const language::SpmdOp& operation, const std::vector<Value>& operands);
  void for_each_device(double operations, const std::function<void(std::size_t)>& work);
  void require_agreement(const language::Function& function, const language::Statement& statement,
                         const std::vector<Value>& results);

  const language::Program& program_;
  Transport& transport_;
  MemoryMeter& meter_;
  const ProgramOptions options_;
  std::unique_ptr<WorkerPool> workers_;  // once there is work for several
  // By function: the last statement that uses each value, as many as there are statements for results, and for a value
  // that nobody uses the one that makes it (-1 for a parameter).
  std::vector<std::vector<std::ptrdiff_t>> last_uses_;
};

}  // namespace retile::runtime
