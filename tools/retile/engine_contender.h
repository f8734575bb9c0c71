// Contenders that `retile bench` knows: those of the library, and those that come with an engine.
#pragma once

#include <string>
#include <string_view>

#include "retile/engines/engine.h"
#include "retile/evaluation/contender.h"

namespace retile::command {

constexpr std::string_view engine_contender_names = "paper, wide, direct, gather-slice, xla, memcpy, alltoallw";

bool is_engine_contender(const std::string& name);

// Throws RuntimeError where the engine does not have it.
Contender make_engine_contender(const std::string& name, const Problem& problem, Engine& engine);

}  // namespace retile::command
