// Processes without processes: threads that each have an engine with a part of the devices, as processes of one run do.
#pragma once

#include <functional>

#include "retile/engines/engine.h"

namespace retile::test {

// Calls action(engine) on as many threads at once. Device d belongs to thread d / ceil(devices / processes); tiles
// cross by the reference engine. What an action throws is thrown here, that of the first thread first.
void run_split(int processes, const std::function<void(int process, Engine& engine)>& action);

}  // namespace retile::test
