// The processes of a run: what they tell each other, and how they fail together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace retile {

// All calls but the first three are collective: every process makes them, in the same order.
class Processes {
 public:
  virtual ~Processes() = default;

  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;
  // True on the one process that speaks for all.
  bool is_speaker() const { return rank() == 0; }

  virtual std::int64_t least(std::int64_t number) const = 0;
  std::int64_t most(std::int64_t number) const { return -least(-number); }
  // Each entry becomes the largest of all processes.
  virtual void most(std::span<std::int64_t> numbers) const;
  // Each entry becomes the sum of that of all processes, modulo 2^64.
  virtual void add_up(std::span<std::uint64_t> numbers) const = 0;
  // Bytes of one process become those of all.
  virtual void broadcast(std::span<std::byte> bytes, int from) const = 0;

  // The speaker's, on all processes.
  std::string share(std::string text) const { return share(std::move(text), 0); }
  template <typename Value>
  requires std::is_trivially_copyable_v<Value> Value share(Value value)
  const {
    broadcast(std::as_writable_bytes(std::span(&value, 1)), 0);
    return value;
  }
  // The text of the first process that has one; nothing where none has.
  std::optional<std::string> first_text(const std::optional<std::string>& mine) const;

  // Does work that may fail in some processes, and throws in all what the first of them did: no process waits for one
  // that has given up. Carries InputError, ProgramFailure and RuntimeError; no memory becomes a RuntimeError.
  void do_together(const std::function<void()>& action) const;

  // A property of what processes were given, and its text. One line each.
  struct Named {
    std::string name;
    std::string text;
  };
  // Throws RuntimeError in all processes if their lists differ: with the first difference to rank 0's.
  void require_same(const std::string& what, std::span<const Named> mine) const;

 private:
  std::string share(std::string text, int from) const;
};

// A process alone.
const Processes& one_process();

}  // namespace retile
