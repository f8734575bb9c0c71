// Messages for usage errors, in words of our own: the argument parser's differ between versions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/retile/options.h"

namespace retile::command {

// The names that known_name() accepts for the option; empty where it does not check it.
std::vector<std::string> choices_of(CLI::Option& option);

// The subcommands that the help shows.
std::vector<std::string> subcommand_names(const CLI::App& app);

// Subcommands that describe the others and the app itself; they are added last.
void add_help_command(CLI::App& app);
void add_complete_command(CLI::App& app);
void add_man_command(CLI::App& app);

// The message for an error of the parser or of usage, and where to read on.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);
std::string usage_message(const CLI::App& app, const UsageError& error);

}  // namespace retile::command
