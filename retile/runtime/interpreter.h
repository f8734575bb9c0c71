// Goes through a program's statements: values in, values out.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "retile/engines/threads/worker_pool.h"
#include "retile/language/lowering.h"
#include "retile/runtime/mover.h"
#include "retile/runtime/runtime.h"

namespace retile::runtime {

class Interpreter {
 public:
  // All must outlive it.
  Interpreter(const language::LoweredProgram& lowered, Mover& mover, MemoryMeter& meter,
              const AfterStatement& after_statement);

  std::vector<SharedArray> run_main(std::vector<SharedArray> arguments);

 private:
  std::vector<SharedArray> run(int number, std::vector<SharedArray> arguments);
  std::vector<SharedArray> run(int number, std::size_t index, std::vector<SharedArray> operands);
  std::vector<SharedArray> compute(const language::Function& function, const language::Statement& statement,
                                   const language::SpmdOp& operation, const std::vector<SharedArray>& operands);
  void for_each_device(double operations, const std::function<void(std::size_t)>& work);
  void require_agreement(const language::Function& function, const language::Statement& statement,
                         const std::vector<SharedArray>& results);

  const language::LoweredProgram& lowered_;
  const language::Program& program_;
  Mover& mover_;
  MemoryMeter& meter_;
  const AfterStatement after_statement_;
  std::unique_ptr<WorkerPool> workers_;      // once there is work for several
  std::vector<std::vector<int>> last_uses_;  // by function
};

}  // namespace retile::runtime
