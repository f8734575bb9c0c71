#include "tools/retile/options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace retile::command {

Option Option::check(const Check& check) const {
  option_->check(*check);
  return *this;
}

Option Option::transform(const Check& check) const {
  option_->transform(*check);
  return *this;
}

Option Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::delimiter(char character) const {
  option_->delimiter(character);
  return *this;
}

Option Option::capture_default_str() const {
  option_->capture_default_str();
  return *this;
}

Command Command::add_subcommand(const std::string& name, const std::string& description, const std::string& examples,
                                std::function<void()> run) const {
  CLI::App* command = app_->add_subcommand(name, description);
  command->footer(examples);
  command->callback(std::move(run));
  return Command(*command);
}

template <typename Value>
Option Command::add_option(const std::string& name, Value& value, const std::string& description) const {
  return Option(*app_->add_option(name, value, description));
}

template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::int64_t>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;

void Command::add_flag(const std::string& name, bool& value, const std::string& description) const {
  app_->add_flag(name, value, description);
}

bool Command::is_given(const std::string& option) const { return app_->count(option) > 0; }

}  // namespace retile::command
