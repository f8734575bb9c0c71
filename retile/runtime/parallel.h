// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace retile::runtime {

// Calls work(0), …, work(count - 1), at most `workers` at a time, one of them on the calling thread. Where some throw,
// all that have begun end, and what the first of them by number threw is thrown on.
void for_each_in_parallel(std::size_t count, std::size_t workers, const std::function<void(std::size_t)>& work);

}  // namespace retile::runtime
