#include "retile/engines/processes.h"

#include <fmt/format.h>

#include <functional>
#include <new>
#include <sstream>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

class OneProcess final : public Processes {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::int64_t least(std::int64_t number) const override { return number; }
  void add_up(std::span<std::uint64_t>) const override {}
  void broadcast(std::span<std::byte>, int) const override {}
};

// What a process throws.
struct Failure {
  enum class Kind : std::uint8_t { input, program, runtime } kind = Kind::runtime;
  Diagnostic diagnostic;
};

std::optional<Failure> failure_of(const std::function<void()>& action) {
  Failure failure;
  try {
    action();
    return std::nullopt;
  } catch (const InputError& error) {
    failure = {Failure::Kind::input, error.diagnostic()};
  } catch (const ProgramFailure& error) {
    failure = {Failure::Kind::program, error.diagnostic()};
  } catch (const RuntimeError& error) {
    failure.diagnostic.message = error.what();
  } catch (const std::bad_alloc&) {
    failure.diagnostic.message = "out of memory";
  }
  return failure;
}

[[noreturn]] void raise(const Failure& failure) {
  if (failure.kind == Failure::Kind::input) throw InputError(failure.diagnostic);
  if (failure.kind == Failure::Kind::program) throw ProgramFailure(failure.diagnostic);
  throw RuntimeError(failure.diagnostic.message);
}

// Puts failures into bytes, or takes them out again: both go through the same fields.
class FailureBytes {
 public:
  explicit FailureBytes(Failure failure) { visit(failure); }
  explicit FailureBytes(std::string bytes) : bytes_(std::move(bytes)), is_taking_(true) {}

  const std::string& bytes() const { return bytes_; }
  Failure take() {
    Failure failure;
    visit(failure);
    return failure;
  }

 private:
  void visit(Failure& failure) {
    visit_raw(&failure.kind, sizeof failure.kind);
    visit(failure.diagnostic);
  }
  void visit(Diagnostic& diagnostic) {
    for (std::string* text : {&diagnostic.message, &diagnostic.hint, &diagnostic.source_name, &diagnostic.line_text}) {
      visit_list(*text);
      visit_raw(text->data(), text->size());
    }
    for (int* number : {&diagnostic.line, &diagnostic.column, &diagnostic.length}) visit_raw(number, sizeof *number);
    visit_raw(&diagnostic.range, sizeof diagnostic.range);
    visit_list(diagnostic.notes);
    for (Diagnostic& note : diagnostic.notes) visit(note);
  }
  template <typename List>
  void visit_list(List& list) {
    std::size_t size = list.size();
    visit_raw(&size, sizeof size);
    list.resize(size);
  }
  void visit_raw(void* data, std::size_t size) {
    if (is_taking_) {
      bytes_.copy(static_cast<char*>(data), size, taken_);
      taken_ += size;
    } else {
      bytes_.append(static_cast<const char*>(data), size);
    }
  }

  std::string bytes_;
  bool is_taking_ = false;
  std::size_t taken_ = 0;
};

// Between the first process's pairs of lines, a name and its text, and another one's.
std::string find_difference(const std::string& first, const std::string& other, int rank) {
  std::istringstream lines[] = {std::istringstream(first), std::istringstream(other)};
  std::string names[2];
  std::string texts[2];
  while (true) {
    for (int i = 0; i < 2; ++i) {
      if (!std::getline(lines[i], names[i])) names[i].clear();
      if (!std::getline(lines[i], texts[i])) texts[i] = "missing";
    }
    if (names[0] == names[1] && texts[0] == texts[1] && !names[0].empty()) continue;
    const std::string& name = names[0].empty() ? names[1] : names[0];
    if (names[0] != names[1] && !names[0].empty()) texts[1] = "missing";
    return fmt::format("{} is {} on rank 0 and {} on rank {}", name, texts[0], texts[1], rank);
  }
}

}  // namespace

void Processes::most(std::span<std::int64_t> numbers) const {
  for (std::int64_t& number : numbers) number = most(number);
}

std::string Processes::share(std::string text, int from) const {
  std::size_t size = text.size();
  broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  text.resize(size);
  broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

std::optional<std::string> Processes::first_text(const std::optional<std::string>& mine) const {
  const auto first = static_cast<int>(least(mine ? rank() : size()));
  if (first == size()) return std::nullopt;
  return share(mine.value_or(""), first);
}

void Processes::do_together(const std::function<void()>& action) const {
  const std::optional<Failure> mine = failure_of(action);
  const auto first = first_text(mine ? std::optional(FailureBytes(*mine).bytes()) : std::nullopt);
  if (first) raise(FailureBytes(*first).take());
}

void Processes::require_same(const std::string& what, std::span<const Named> mine) const {
  std::string lines;
  for (const Named& one : mine) lines += fmt::format("{}\n{}\n", one.name, one.text);
  // Most often they agree, which one number tells.
  const auto number = static_cast<std::int64_t>(std::hash<std::string>()(lines) >> 1U);
  std::int64_t range[] = {number, -number};
  most(range);
  if (range[0] == -range[1]) return;
  const std::string first = share(lines);
  std::optional<std::string> difference;
  if (first != lines) difference = find_difference(first, lines, rank());
  if (const auto told = first_text(difference)) {
    throw RuntimeError(fmt::format("the ranks were given different {}: {}", what, *told));
  }
}

const Processes& one_process() {
  static const OneProcess process;
  return process;
}

}  // namespace retile
