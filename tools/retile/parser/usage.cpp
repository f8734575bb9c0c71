#include "tools/retile/parser/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "retile/base/nearest_name.h"
#include "retile/planner/memory_limit.h"

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

std::string suggestion(const std::string& name, const std::vector<std::string>& known, std::string_view prefix) {
  const std::optional<std::string> nearest = nearest_name(name, known);
  return nearest ? fmt::format("; did you mean {}{}?", prefix, *nearest) : "";
}

// Suggests the option that was meant: "--mehs=x=4" is compared as "mehs". An option of one letter resembles too many.
std::string explain_option(const CLI::App& command, const std::string& extra) {
  const std::string option = extra.substr(0, extra.find('='));
  const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::vector<std::string> known;
  for (const CLI::Option* other : command.get_options()) {
    for (const std::string& other_name : other->get_lnames()) known.push_back(other_name);
  }
  if (std::find(known.begin(), known.end(), name) != known.end())
    return fmt::format("{} goes behind the subcommand: retile {} {}", option, command.get_name(), option);
  return fmt::format("unknown option {}{}", option, name.size() < 2 ? "" : suggestion(name, known, "--"));
}

// An axis that was given as SRC, because "--mesh x=2 y=4" has a space too many; nothing where SRC is no axis.
std::optional<std::string> axis_beside_mesh(const CLI::App& command) {
  const CLI::Option* source = command.get_option_no_throw("SRC");
  if (source == nullptr || source->empty()) return std::nullopt;
  const std::string& text = source->results().front();
  const bool is_axis = text.find('=') != std::string::npos && text.find_first_of("[({") == std::string::npos;
  return is_axis ? std::optional(text) : std::nullopt;
}

std::string explain_extra(const CLI::App& app, const std::string& extra) {
  const CLI::App* command = chosen_command(app);
  if (extra.starts_with("-") && extra != "-") return explain_option(command == nullptr ? app : *command, extra);
  if (command != nullptr) {
    if (const auto axis = axis_beside_mesh(*command)) {
      return fmt::format("{} stands apart from the mesh: commas without spaces join its axes, as in --mesh x=2,y=4",
                         *axis);
    }
    const bool is_of_type = extra.find_first_of("[]") != std::string::npos;
    return fmt::format("one argument too many: {}{}", extra, is_of_type ? quoting_advice : "");
  }
  const std::vector<std::string> known = subcommand_names(app);
  const std::string nearest = suggestion(extra, known, "");
  return fmt::format("unknown subcommand {}{} there are {}", extra, nearest.empty() ? ";" : nearest,
                     fmt::join(known, ", "));
}

// Explains the parser's messages: "--mesh: 1 required AXES missing" means that a value is missing, and "--mesh: At Most
// 1 required but received 2" that there are two.
std::string explain_mismatch(const std::string& message) {
  const std::string option = message.substr(0, message.find(':'));
  if (message.ends_with(" missing")) return fmt::format("{} needs a value", option);
  if (message.find("At Most 1 ") != std::string::npos) return fmt::format("{} is given more than once", option);
  return message;
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) return explain_extra(app, extras.front());
  if (chosen_command(app) == nullptr)
    return fmt::format("a subcommand is needed: {}", fmt::join(subcommand_names(app), ", "));
  return explain_mismatch(error.what());
}

std::string with_advice(const CLI::App& app, const std::string& message) {
  const CLI::App* command = chosen_command(app);
  const std::string name = command == nullptr ? "" : command->get_name() + " ";
  return fmt::format("retile: {}\nTry 'retile {}--help'.\n", message, name);
}

}  // namespace

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

Check known_name(std::string_view names) {
  const auto check = [names = std::string(names)](const std::string& name) {
    const std::vector<std::string> known = split_names(names);
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    if (is_known) return std::string();
    const std::string nearest = suggestion(name, known, "");
    return fmt::format("'{}' is unknown{} use one of: {}", name, nearest.empty() ? ";" : nearest, names);
  };
  return std::make_shared<CLI::Validator>(CLI::Validator(check, "").name(std::string(names)));
}

std::vector<std::string> choices_of(CLI::Option& option) {
  try {
    return split_names(option.get_validator(0)->get_name());
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

// The parser's own check of ranges accepts NaN.
Check number_between(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double number = 0;
    const bool fits = CLI::detail::lexical_cast(text, number) && least <= number && number <= most;
    return fits ? std::string() : fmt::format("'{}' is no number from {} to {}", text, least, most);
  };
  return std::make_shared<CLI::Validator>(check, "");
}

Check byte_count(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](std::string& text) {
    try {
      const std::int64_t size = parse_byte_count({"size", text});
      if (least <= size && size <= most) {
        text = std::to_string(size);
        return std::string();
      }
    } catch (const InputError&) {  // reported below
    }
    return fmt::format("'{}' is no size from {} to {} bytes; write 4096 or 8MiB", text, least, most);
  };
  return std::make_shared<CLI::Validator>(check, "");
}

Check whole_number(std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](const std::string& text) {
    const std::optional<std::uint64_t> value = parse_whole_number(text);
    const bool fits = value && *value >= least && *value <= most;
    return fits ? std::string() : fmt::format("'{}' is no whole number from {} to {}", text, least, most);
  };
  return std::make_shared<CLI::Validator>(check, "");
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  return with_advice(app, explain(app, error));
}

std::string usage_message(const CLI::App& app, const UsageError& error) { return with_advice(app, error.what()); }

}  // namespace retile::command
