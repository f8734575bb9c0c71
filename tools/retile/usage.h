// What the command says where its usage is at fault, in words of its own: the argument parser's vary.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace retile::command {

// The usage is at fault, in a way that the argument parser does not see.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Accepts the names that are listed, with commas or spaces between them.
CLI::Validator known_name(std::string_view names);

// What known_name() accepts for the option; nothing where it does not check it.
std::vector<std::string> choices_of(CLI::Option& option);

// Those that the help shows.
std::vector<std::string> subcommand_names(const CLI::App& app);

// Accepts numbers from `least` to `most`.
CLI::Validator number_between(double least, double most);

// Accepts sizes from `least` to `most` bytes, as in 4096 or 8MiB, and makes decimal digits of them.
CLI::Validator byte_count(std::int64_t least, std::int64_t most);

// Accepts decimal digits that count from `least` to `most`.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);

// The message for what the parser threw, and where to read on.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);
std::string usage_message(const CLI::App& app, const UsageError& error);

}  // namespace retile::command
