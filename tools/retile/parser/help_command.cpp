// retile help
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "tools/retile/command.h"
#include "tools/retile/output.h"
#include "tools/retile/parser/usage.h"

namespace retile::command {

void add_help_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Show the help of a subcommand");
  const auto name = std::make_shared<std::optional<std::string>>();
  command->add_option("COMMAND", *name, "the subcommand; without one, the list of all")
      ->check(*known_name(fmt::format("{}", fmt::join(subcommand_names(app), ", "))))
      ->type_name("");
  command->footer("");  // without the app's footer
  command->callback([&app, name] {
    const CLI::App* subject = *name ? app.get_subcommand(**name) : &app;
    const std::string title = *name ? "retile " + **name : "retile";
    write_result(app.get_formatter()->make_help(subject, title, CLI::AppFormatMode::Normal));
  });
}

}  // namespace retile::command
