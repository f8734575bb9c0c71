// The option that names the engine of a run, and those that go with it.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "retile/engines/engine.h"

namespace retile::command {

struct EngineArguments {
  std::string engine = "threads";
  int threads = 0;  // 0: one for each core
};

void add_engine_options(CLI::App& command, EngineArguments& arguments);

// Throws RuntimeError where the engine cannot start.
std::unique_ptr<Engine> make_engine(const EngineArguments& arguments);

}  // namespace retile::command
