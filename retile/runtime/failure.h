// Failures of a run: at a place in the program, and in one of several processes.
#pragma once

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

namespace retile::runtime {

// With the place, the line and a caret, as diagnostics are printed.
inline RuntimeError failure_at(const SourceText& source, SourceRange range, std::string message,
                               std::string hint = {}) {
  std::string text = to_string(diagnose(source, range, std::move(message), std::move(hint)));
  while (text.ends_with('\n')) text.pop_back();
  return RuntimeError(text);
}

// Does work that may fail in some processes of an engine or a transport, and throws what the first of them has to say
// in all: no process waits for one that has given up.
template <typename Processes, typename Action>
void do_together(Processes& processes, Action action) {
  std::optional<std::string> failure;
  try {
    action();
  } catch (const RuntimeError& error) {
    failure = error.what();
  } catch (const std::bad_alloc&) {
    failure = "out of memory";
  }
  if (const auto first = processes.first_of(std::move(failure))) throw RuntimeError(*first);
}

}  // namespace retile::runtime
