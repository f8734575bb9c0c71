// Messages for usage errors, in words of our own: the argument parser's differ between versions.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace retile::command {

// A usage error that the argument parser does not find.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Advice for messages where a type may have come without quotes: a shell cuts "[2{x}8, 8]" at the space, and expands
// "[2{x,y}8]" to two words.
constexpr std::string_view quoting_advice = "; types need quotes in a shell, as in '[2{x}8, 8]'";

// Adds an option that takes a value; the help shows its default, if it has one.
template <typename Value>
void add_value(CLI::App& command, const std::string& name, Value& value, const std::string& description,
               const std::string& type, const CLI::Validator& check) {
  CLI::Option* option = command.add_option(name, value, description)->check(check)->type_name(type);
  if constexpr (!requires { value.has_value(); }) option->capture_default_str();
}

// A subcommand and its arguments, which live as long as it. When it is chosen, *status becomes what run() returns.
template <typename Arguments>
struct Subcommand {
  CLI::App& command;
  Arguments& arguments;
};

template <typename Arguments>
Subcommand<Arguments> add_subcommand(CLI::App& app, const std::string& name, const std::string& description,
                                     const std::string& examples, int (*run)(const Arguments&), int* status) {
  CLI::App* command = app.add_subcommand(name, description);
  const auto arguments = std::make_shared<Arguments>();
  command->footer(examples);
  command->callback([arguments, run, status] { *status = run(*arguments); });
  return {*command, *arguments};
}

// Accepts the listed names, separated by commas or spaces.
CLI::Validator known_name(std::string_view names);

// The names that known_name() accepts for the option; empty where it does not check it.
std::vector<std::string> choices_of(CLI::Option& option);

// The subcommands that the help shows.
std::vector<std::string> subcommand_names(const CLI::App& app);

// Accepts numbers from `least` to `most`.
CLI::Validator number_between(double least, double most);

// Accepts sizes from `least` to `most` bytes, as in 4096 or 8MiB, and rewrites them as decimal digits.
CLI::Validator byte_count(std::int64_t least, std::int64_t most);

// Accepts decimal digits of a number from `least` to `most`.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);

// The message for an error of the parser or of usage, and where to read on.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);
std::string usage_message(const CLI::App& app, const UsageError& error);

}  // namespace retile::command
