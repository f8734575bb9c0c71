#include "retile/engines/processes.h"

#include <cstring>
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
  enum class Kind : std::uint8_t { input, program, runtime };
  Kind kind = Kind::runtime;
  Diagnostic diagnostic;

  explicit Failure(std::string message) { diagnostic.message = std::move(message); }
  Failure(Kind failure_kind, Diagnostic what) : kind(failure_kind), diagnostic(std::move(what)) {}

  [[noreturn]] void raise() const {
    if (kind == Kind::input) throw InputError(diagnostic);
    if (kind == Kind::program) throw ProgramFailure(diagnostic);
    throw RuntimeError(diagnostic.message);
  }
};

std::optional<Failure> failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return Failure(Failure::Kind::input, error.diagnostic());
  } catch (const ProgramFailure& error) {
    return Failure(Failure::Kind::program, error.diagnostic());
  } catch (const RuntimeError& error) {
    return Failure(error.what());
  } catch (const std::bad_alloc&) {
    return Failure("out of memory");
  }
  return std::nullopt;
}

// Failures as bytes. Both directions visit the same fields.
class Packing {
 public:
  template <typename Number>
  void number(const Number& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void text(const std::string& text) {
    number(text.size());
    bytes_ += text;
  }
  void notes(const std::vector<Diagnostic>& notes);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacking {
 public:
  explicit Unpacking(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename Number>
  void number(Number& number) {
    std::memcpy(&number, bytes_.data() + done_, sizeof number);
    done_ += sizeof number;
  }
  void text(std::string& text) {
    std::size_t size = 0;
    number(size);
    text = bytes_.substr(done_, size);
    done_ += size;
  }
  void notes(std::vector<Diagnostic>& notes);

 private:
  std::string bytes_;
  std::size_t done_ = 0;
};

template <typename Direction, typename AnyDiagnostic>
void visit(Direction& direction, AnyDiagnostic& diagnostic) {
  direction.text(diagnostic.message);
  direction.text(diagnostic.hint);
  direction.text(diagnostic.source_name);
  direction.number(diagnostic.line);
  direction.number(diagnostic.column);
  direction.text(diagnostic.line_text);
  direction.number(diagnostic.length);
  direction.number(diagnostic.range);
  direction.notes(diagnostic.notes);
}

void Packing::notes(const std::vector<Diagnostic>& notes) {
  number(notes.size());
  for (const Diagnostic& note : notes) visit(*this, note);
}

void Unpacking::notes(std::vector<Diagnostic>& notes) {
  std::size_t count = 0;
  number(count);
  notes.resize(count);
  for (Diagnostic& note : notes) visit(*this, note);
}

std::string to_bytes(const Failure& failure) {
  Packing packing;
  packing.number(failure.kind);
  visit(packing, failure.diagnostic);
  return packing.take();
}

Failure failure_from(std::string bytes) {
  Unpacking unpacking(std::move(bytes));
  Failure failure("");
  unpacking.number(failure.kind);
  visit(unpacking, failure.diagnostic);
  return failure;
}

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
  const std::optional<std::string> first = first_text(mine ? std::optional(to_bytes(*mine)) : std::nullopt);
  if (first) failure_from(*first).raise();
}

const Processes& one_process() {
  static const OneProcess process;
  return process;
}

}  // namespace retile
