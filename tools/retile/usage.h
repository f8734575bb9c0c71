// What the command says where its usage is at fault, in words of its own: the argument parser's vary.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace retile::command {

// The usage is at fault, in a way that the argument parser does not see.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Accepts what `is_known` knows; `names` lists it for the message.
CLI::Validator known_name(std::string_view names, std::function<bool(const std::string& name)> is_known);

// The same for a function that finds what a name stands for.
template <typename Value>
CLI::Validator known_name(std::string_view names, std::optional<Value> (*find)(std::string_view name)) {
  return known_name(names, [find](const std::string& name) { return find(name).has_value(); });
}

// Accepts decimal digits that count from `least` to `most`.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);

// The message for what the parser threw, and where to read on.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);
std::string usage_message(const CLI::App& app, const UsageError& error);

}  // namespace retile::command
