// Failures of a run: at a place in the program, and in one of several processes.
#pragma once

#include <exception>
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

// Does work that may fail in some processes of an engine or a mover, and throws in all what the first of them has
// to say: no process waits for one that has given up. A process that finds the input at fault says so itself.
template <typename Processes, typename Action>
void do_together(Processes& processes, Action action) {
  std::optional<std::string> failure;
  std::exception_ptr input_fault;
  try {
    action();
  } catch (const InputError& error) {
    failure = error.what();
    input_fault = std::current_exception();
  } catch (const RuntimeError& error) {
    failure = error.what();
  } catch (const std::bad_alloc&) {
    failure = "out of memory";
  }
  const std::optional<std::string> first = processes.first_of(std::move(failure));
  if (input_fault) std::rethrow_exception(input_fault);
  if (first) throw RuntimeError(*first);
}

}  // namespace retile::runtime
