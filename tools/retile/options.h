// The options of subcommands. Nothing here shows the argument parser, CLI11: each file that includes it takes ten
// seconds to compile. What has to know it is in tools/retile/parser.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace CLI {  // NOLINT(readability-identifier-naming): the parser's
class App;
class Option;
class Validator;
}  // namespace CLI

namespace retile::command {

// A usage error that the argument parser does not find.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Advice for messages where a type may have come without quotes: a shell cuts "[2{x}8, 8]" at the space, and expands
// "[2{x,y}8]" to two words.
constexpr std::string_view quoting_advice = "; types need quotes in a shell, as in '[2{x}8, 8]'";

// --- Checks of values.

using Check = std::shared_ptr<const CLI::Validator>;

// Accepts the listed names, separated by commas or spaces.
Check known_name(std::string_view names);

// Accepts numbers from `least` to `most`.
Check number_between(double least, double most);

// Accepts sizes from `least` to `most` bytes, as in 4096 or 8MiB, and rewrites them as decimal digits.
Check byte_count(std::int64_t least, std::int64_t most);

// Accepts decimal digits of a number from `least` to `most`.
Check whole_number(std::uint64_t least, std::uint64_t most);

// --- Subcommands and their options. The parser keeps both; these only refer to them.

class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option check(const Check& check) const;
  // The check rewrites the value.
  Option transform(const Check& check) const;
  Option type_name(const std::string& name) const;
  Option required() const;
  // Between the values of a list.
  Option delimiter(char character) const;
  // The help shows the default.
  Option capture_default_str() const;

 private:
  CLI::Option* option_;
};

class Command {
 public:
  Command() = default;
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_subcommand(const std::string& name, const std::string& description, const std::string& examples,
                         std::function<void()> run) const;

  // The value lives as long as the subcommand. Defined for the types of values that there are.
  template <typename Value>
  Option add_option(const std::string& name, Value& value, const std::string& description) const;
  void add_flag(const std::string& name, bool& value, const std::string& description) const;

  bool is_given(const std::string& option) const;

 private:
  CLI::App* app_ = nullptr;
};

// Adds an option that takes a value; the help shows its default, if it has one.
template <typename Value>
void add_value(Command command, const std::string& name, Value& value, const std::string& description,
               const std::string& type, const Check& check) {
  const Option option = command.add_option(name, value, description).check(check).type_name(type);
  if constexpr (!requires { value.has_value(); }) option.capture_default_str();
}

// A subcommand and its arguments, which live as long as it. When it is chosen, *status becomes what run() returns.
template <typename Arguments>
struct Subcommand {
  Command command;
  Arguments& arguments;
};

template <typename Arguments>
Subcommand<Arguments> add_subcommand(Command app, const std::string& name, const std::string& description,
                                     const std::string& examples, int (*run)(const Arguments&), int* status) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      app.add_subcommand(name, description, examples, [arguments, run, status] { *status = run(*arguments); });
  return {command, *arguments};
}

}  // namespace retile::command
