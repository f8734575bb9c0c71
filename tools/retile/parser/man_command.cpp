// retile man
#include <fmt/format.h>

#include <string>

#include "retile/version.h"
#include "tools/retile/command.h"
#include "tools/retile/output.h"
#include "tools/retile/parser/usage.h"

namespace retile::command {
namespace {

// Escapes text for roff.
std::string roff(const std::string& text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\' || c == '-') out += "\\";
    out += c == '\\' ? 'e' : c;
    at_line_start = c == '\n';
  }
  return out;
}

// Lines that roff does not fill.
std::string verbatim(const std::string& text) { return fmt::format(".nf\n{}\n.fi\n", roff(text)); }

std::string option_entry(const CLI::Option& option) {
  const std::string name = option.nonpositional() ? option.get_name(false, true) : option.get_name(true);
  const std::string type = option.nonpositional() ? option.get_type_name() : "";
  const bool takes_value = option.get_items_expected_max() > 0 && !type.empty();
  const std::string value = option.get_default_str().empty() ? "" : "=" + option.get_default_str();
  return fmt::format(".TP\n.B {}{}\n{}\n", roff(name),
                     takes_value ? fmt::format(" \\fI{}{}\\fR", roff(type), roff(value)) : "",
                     roff(option.get_description()));
}

std::string command_section(const CLI::App& command) {
  std::string out = fmt::format(".SH RETILE {}\n{}.\n", roff(command.get_name()), roff(command.get_description()));
  for (const CLI::Option* option : command.get_options()) out += option_entry(*option);
  if (!command.get_footer().empty()) out += ".PP\n" + verbatim(command.get_footer());
  return out;
}

std::string man_page(const CLI::App& app) {
  std::string out = fmt::format(R"(.TH RETILE 1 "" "retile {}"
.SH NAME
retile \- move sharded arrays between layouts
.SH SYNOPSIS
.B retile
.I SUBCOMMAND
[\fIOPTIONS\fR] [\fIARGUMENTS\fR]
.SH DESCRIPTION
)",
                                RETILE_VERSION);
  out += verbatim(app.get_description());
  for (const CLI::Option* option : app.get_options()) out += option_entry(*option);
  for (const std::string& name : subcommand_names(app)) out += command_section(*app.get_subcommand(name));
  return out + ".SH NOTES\n" + verbatim(app.get_footer());
}

}  // namespace

void add_man_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print retile's page of the manual");
  command->group("");  // hidden: it is run when retile is installed
  command->callback([&app] { write_result(man_page(app)); });
}

}  // namespace retile::command
