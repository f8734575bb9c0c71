// Targets that appear under their names when they are complete: until then they grow in a folder beside it.
#pragma once

#include <functional>
#include <string>

#include "retile/engines/processes.h"

namespace retile::files {

// The path without the slashes at its end, so that other names can be made of it.
std::string without_slashes(std::string path);

// The folder around a path.
std::string parent_of(const std::string& path);

// Whether the first path is the second one or lies inside it, whatever links lead there.
bool is_inside(const std::string& inner, const std::string& outer);

// Throws InputError where the target is the source or holds it: replacing the target would remove what is read.
void require_source_outside(const std::string& source, const std::string& target);

// Done by one process for all. What it throws, all throw; errors of std::filesystem become RuntimeErrors. Collective.
void do_once(const Processes& processes, const std::function<void()>& action);
// Returns when all processes have called it. Collective.
void wait_for_all(const Processes& processes);

// The folder in which a target grows until it is complete.
std::string unfinished_path(const std::string& target);

// Gives the unfinished folder its name, once all that is in it is on the disk, and removes what had it. Where the file
// system can exchange two names, there is something complete under the target's name at all times. Throws
// std::filesystem::filesystem_error and RuntimeError.
void name_target(const std::string& target);

}  // namespace retile::files
