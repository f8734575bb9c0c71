// retile complete: answers the shells' completion scripts (tools/retile/completion).
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/retile/command.h"
#include "tools/retile/output.h"
#include "tools/retile/parser/usage.h"

namespace retile::command {
namespace {

// A word that the user may mean, and its description.
struct Candidate {
  std::string word;
  std::string description = {};
};

bool takes_value(const CLI::Option* option) { return option != nullptr && option->get_items_expected_max() > 0; }

std::vector<Candidate> values_of(CLI::Option& option, const std::string& prefix) {
  std::vector<Candidate> candidates;
  for (const std::string& choice : choices_of(option)) candidates.push_back({prefix + choice});
  return candidates;
}

std::vector<Candidate> options_of(const CLI::App& command) {
  std::vector<Candidate> candidates;
  for (const CLI::Option* option : command.get_options()) {
    const std::string description = option->get_description();
    for (const std::string& name : option->get_lnames()) {
      candidates.push_back({"--" + name, description.substr(0, description.find('\n'))});
    }
  }
  return candidates;
}

std::vector<Candidate> subcommands_of(const CLI::App& app) {
  std::vector<Candidate> candidates;
  for (const std::string& name : subcommand_names(app)) {
    candidates.push_back({name, app.get_subcommand(name)->get_description()});
  }
  return candidates;
}

// The words that the last word may become, after the words before it.
std::vector<Candidate> candidates_for(CLI::App& app, const std::vector<std::string>& words) {
  const std::string& last = words.back();
  CLI::App* command = &app;
  const std::vector<std::string> names = subcommand_names(app);
  const auto named = std::find_first_of(words.begin(), words.end() - 1, names.begin(), names.end());
  if (named != words.end() - 1) command = app.get_subcommand(*named);
  const std::size_t sign = last.find('=');
  const std::string before = words.size() < 2 ? "" : words[words.size() - 2];
  const std::string option_name = sign == std::string::npos ? before : last.substr(0, sign);
  CLI::Option* option = option_name.starts_with("-") ? command->get_option_no_throw(option_name) : nullptr;
  if (takes_value(option)) return values_of(*option, last.substr(0, sign + 1));
  if (last.starts_with("-")) return options_of(*command);
  if (command == &app) return subcommands_of(app);
  const std::vector<CLI::Option*> arguments = command->get_options([](CLI::Option* o) { return !o->nonpositional(); });
  return arguments.empty() ? std::vector<Candidate>{} : values_of(*arguments.front(), "");
}

// The words with options joined again: bash splits --planner=wide into three words.
std::vector<std::string> without_signs(std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  if (words.back() == "=") words.back().clear();
  words.erase(std::remove(words.begin(), words.end(), "="), words.end());
  return words;
}

std::string completions(CLI::App& app, const std::vector<std::string>& given) {
  const std::vector<std::string> words = without_signs(given);
  std::string out;
  for (const Candidate& candidate : candidates_for(app, words)) {
    if (!candidate.word.starts_with(words.back())) continue;
    out += fmt::format("{}{}{}\n", candidate.word, candidate.description.empty() ? "" : "\t", candidate.description);
  }
  return out;
}

}  // namespace

void add_complete_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("complete", "Print what the last of some words may become, one a line");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->group("");  // hidden: only shells use it
  command->add_option("WORD", *words, "after --: what follows retile, up to the word that is completed")->type_name("");
  command->callback([&app, words] { write_result(completions(app, *words)); });
}

}  // namespace retile::command
