#include "tools/retile/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace retile::command {
namespace {

std::optional<std::uint64_t> parse_whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// The subcommand that the arguments name; null before one is found.
const CLI::App* chosen_command(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : chosen.front();
}

std::string subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string explain_extra(const CLI::App& app, const std::string& extra) {
  if (extra.starts_with("-") && extra != "-") return fmt::format("unknown option {}", extra);
  if (chosen_command(app) != nullptr) return fmt::format("one argument too many: {}", extra);
  return fmt::format("unknown subcommand {}; there are {}", extra, subcommand_names(app));
}

// "--mesh: 1 required AXES missing" is the parser's way to say that a value is missing, and
// "--mesh: At Most 1 required but received 2" that there are two.
std::string explain_mismatch(const std::string& message) {
  const std::string option = message.substr(0, message.find(':'));
  if (message.ends_with(" missing")) return fmt::format("{} needs a value", option);
  if (message.find("At Most 1 ") != std::string::npos) return fmt::format("{} is given more than once", option);
  return message;
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) return explain_extra(app, extras.front());
  if (chosen_command(app) == nullptr) return fmt::format("a subcommand is needed: {}", subcommand_names(app));
  return explain_mismatch(error.what());
}

std::string with_advice(const CLI::App& app, const std::string& message) {
  const CLI::App* command = chosen_command(app);
  const std::string name = command == nullptr ? "" : command->get_name() + " ";
  return fmt::format("retile: {}\nTry 'retile {}--help'.\n", message, name);
}

}  // namespace

CLI::Validator known_name(std::string_view names, std::function<bool(const std::string& name)> is_known) {
  const auto check = [names = std::string(names), is_known = std::move(is_known)](const std::string& name) {
    return is_known(name) ? std::string() : fmt::format("'{}' is unknown; use one of: {}", name, names);
  };
  return {check, ""};
}

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](const std::string& text) {
    const std::optional<std::uint64_t> value = parse_whole_number(text);
    const bool fits = value && *value >= least && *value <= most;
    return fits ? std::string() : fmt::format("'{}' is no whole number from {} to {}", text, least, most);
  };
  return {check, ""};
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  return with_advice(app, explain(app, error));
}

std::string usage_message(const CLI::App& app, const UsageError& error) { return with_advice(app, error.what()); }

}  // namespace retile::command
