#include "retile/engines/processes.h"

#include <new>
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

}  // namespace

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

const Processes& one_process() {
  static const OneProcess process;
  return process;
}

}  // namespace retile
