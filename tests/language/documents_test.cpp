// What is written about the language elsewhere is true of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "retile/language/printer.h"
#include "retile/language/syntax.h"
#include "tests/language/programs.h"

namespace retile::test {
namespace {

struct Block {
  int line = 0;
  std::string fence;  // what follows the ```
  std::string text;
};

std::vector<Block> blocks_of(const std::string& markdown) {
  std::vector<Block> blocks;
  bool inside = false;
  int number = 0;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("```")) {
      if (!inside) blocks.push_back({number, line.substr(3), {}});
      inside = !inside;
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

// --- docs/language.md and its reference.

std::vector<Block> reference_blocks() {
  std::vector<Block> blocks = blocks_of(read_source("docs/language.md"));
  for (Block& block : blocks_of(read_source("docs/language-reference.md"))) blocks.push_back(std::move(block));
  return blocks;
}

TEST(Reference, programs_are_right_and_in_canonical_form) {
  int count = 0;
  for (const Block& block : reference_blocks()) {
    if (block.fence != "spmd") continue;
    ++count;
    EXPECT_EQ(faults_of(block.text), "") << "line " << block.line;
    EXPECT_EQ(to_string(parsed(block.text)), block.text) << "line " << block.line;
  }
  EXPECT_GE(count, 7);
}

TEST(Reference, wrong_programs_get_the_diagnostic_that_is_shown) {
  int count = 0;
  for (const Block& block : reference_blocks()) {
    if (block.fence != "spmd wrong") continue;
    ++count;
    const std::string mark = "--- says\n";
    const std::size_t end = block.text.find(mark);
    ASSERT_NE(end, std::string::npos) << "line " << block.line;
    EXPECT_EQ(faults_of(block.text.substr(0, end)), block.text.substr(end + mark.size())) << "line " << block.line;
  }
  EXPECT_GE(count, 4);
}

TEST(Reference, shows_every_operation) {
  std::set<std::string> words;
  for (const Block& block : reference_blocks()) {
    if (block.fence != "spmd") continue;
    std::string word;
    for (const char c : block.text) {
      const bool in_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      if (in_word) word += c;
      if (!in_word) words.insert(std::exchange(word, {}));
    }
  }
  for (const std::string_view keyword : language::keywords()) {
    EXPECT_TRUE(words.contains(std::string(keyword)) || keyword == "f32" || keyword == "ceil")
        << keyword;  // these are left out
  }
}

// --- Editors.

// The words between \b( and )\b of a pattern.
void add_words(const std::string& pattern, std::set<std::string>& words) {
  const std::size_t begin = pattern.find("\\b(");
  const std::size_t end = pattern.find(')');
  if (begin == std::string::npos || end == std::string::npos) return;
  std::istringstream list(pattern.substr(begin + 3, end - begin - 3));
  for (std::string word; std::getline(list, word, '|');) words.insert(word);
}

void collect_words(const nlohmann::json& node, std::set<std::string>& words) {
  if (node.is_object() && node.contains("match")) add_words(node["match"], words);
  if (!node.is_structured()) return;
  for (const nlohmann::json& child : node) collect_words(child, words);
}

TEST(Editors, colour_every_keyword_and_nothing_else) {
  std::set<std::string> coloured;
  collect_words(nlohmann::json::parse(read_source("editors/spmd.tmLanguage.json")), coloured);
  std::set<std::string> known;
  for (const std::string_view keyword : language::keywords()) known.emplace(keyword);
  EXPECT_EQ(coloured, known);
}

// --- Examples.

TEST(Examples, of_mistakes_get_the_diagnostics_beside_them) {
  std::string said;
  try {
    language::read_program({"examples/wrong.spmd", read_source("examples/wrong.spmd")});
  } catch (const language::ProgramError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) said += to_string(diagnostic);
  }
  EXPECT_EQ(said, read_source("examples/wrong.expected"));
}

}  // namespace
}  // namespace retile::test
