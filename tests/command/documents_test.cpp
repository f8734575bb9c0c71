// Every command in the documents prints what stands below it; those that need MPI or JAX are run in tests/mpi and
// tests/python. Files and what is said to be in them are there.
#include "tests/support/documents.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/heap.h"
#include "tests/support/process.h"

namespace retile::test {
namespace {

std::vector<std::string> documents() {
  std::vector<std::string> paths{"README.md", "examples/README.md"};
  const std::filesystem::path root = RETILE_SOURCE_DIR;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") paths.push_back(entry.path().lexically_relative(root));
  }
  return paths;
}

TEST(Documents, show_what_their_commands_print) {
  const std::string folder = std::filesystem::path(RETILE_COMMAND).parent_path();
  int count = 0;
  for (const std::string& path : documents()) {
    for (const ShownCommand& command : commands_in(path)) {
      if (!command.text.starts_with("retile ") || command.needs("python") || command.needs("mpirun")) continue;
      if (is_capped_too_tightly(command.text)) continue;
      ++count;
      const std::string script = "export PATH=" + folder + ":$PATH; " + command.text + " 2>&1";
      const ProcessResult result = run_process({"/bin/bash", "-c", script}, {"", RETILE_SOURCE_DIR});
      EXPECT_TRUE(matches_shown(result.output, command.output)) << command.place << " prints\n"
                                                                << result.output << "instead of\n"
                                                                << command.output;
    }
  }
  EXPECT_GE(count, 5);
}

std::string read_source(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(RETILE_SOURCE_DIR) + "/" + path).rdbuf();
  return text.str();
}

// `make_plan()` in `retile/planner/planner.h`, or a file alone.
TEST(Documents, name_what_exists) {
  static const std::regex named(
      R"((?:`([\w:]+)(?:\(\))?`\s+in\s+)?`((?:retile|tests|bench|tools|docs|examples|python|evaluation|editors)/[\w./-]+\.\w+)`)");
  std::vector<std::string> paths = documents();
  paths.insert(paths.end(), {"ARCHITECTURE.md", "CONTRIBUTING.md"});
  int count = 0;
  for (const std::string& path : paths) {
    const std::string text = read_source(path);
    for (std::sregex_iterator match(text.begin(), text.end(), named), end; match != end; ++match, ++count) {
      const std::string file = (*match)[2];
      EXPECT_TRUE(std::filesystem::exists(std::string(RETILE_SOURCE_DIR) + "/" + file)) << path << " names " << file;
      EXPECT_NE(read_source(file).find((*match)[1]), std::string::npos)
          << path << " says that " << (*match)[1] << " is in " << file;
    }
  }
  EXPECT_GE(count, 10);
}

// --- Links between documents.

// What GitHub makes of a heading: lower case, without punctuation, with a hyphen for each space.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') anchor += '-';
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 0x80)
      anchor += static_cast<char>(std::tolower(byte));
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& path) {
  std::set<std::string> anchors;
  std::istringstream lines(read_source(path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t text = line.find_first_not_of('#');
    if (line.starts_with('#') && text != std::string::npos) anchors.insert(anchor_of(line.substr(text + 1)));
  }
  return anchors;
}

TEST(Documents, link_to_what_exists) {
  static const std::regex link(R"re(\]\(([^)#\s]*)(?:#([^)\s]*))?\)|(?:src|srcset)="([^"#]+)")re");
  std::vector<std::string> paths = documents();
  paths.insert(paths.end(), {"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"});
  int count = 0;
  for (const std::string& path : paths) {
    const std::string text = read_source(path);
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
      const std::string file = (*match)[1].str() + (*match)[3].str();
      if (file.find("://") != std::string::npos) continue;
      ++count;
      const std::filesystem::path target =
          file.empty() ? std::filesystem::path(path) : std::filesystem::path(path).parent_path() / file;
      EXPECT_TRUE(std::filesystem::exists(RETILE_SOURCE_DIR / target)) << path << " links to " << file;
      if (const std::string anchor = (*match)[2]; !anchor.empty()) {
        EXPECT_TRUE(anchors_of(target).contains(anchor)) << path << " links to " << file << "#" << anchor;
      }
    }
  }
  EXPECT_GE(count, 100);
}

// What is below reference/ is made with the site.
TEST(Documents, are_pages_of_the_site) {
  static const std::regex entry(R"(- (?:[^:\n]+: )?([\w./-]+\.md)\n)");
  const std::string site = read_source("docs/site/mkdocs.yml");
  std::set<std::string> pages;
  for (std::sregex_iterator match(site.begin(), site.end(), entry), end; match != end; ++match) {
    pages.insert((*match)[1]);
  }
  for (const std::string& page : pages) {
    const bool exists = std::filesystem::exists(std::string(RETILE_SOURCE_DIR) + "/" + page);
    EXPECT_TRUE(exists || page.starts_with("reference/")) << "the site has no " << page;
  }
  for (const std::string& path : documents()) {
    const bool is_page = !path.starts_with("docs/") || pages.contains(path);
    EXPECT_TRUE(is_page) << path << " is missing in docs/site/mkdocs.yml";
  }
}

TEST(Documents, have_the_pictures_that_are_drawn) {
  const std::string source = RETILE_SOURCE_DIR;
  const std::string folder = testing::TempDir() + "retile_pictures";
  std::filesystem::remove_all(folder);
  const std::string path = std::filesystem::path(RETILE_COMMAND).parent_path();
  const std::string script = "PATH=" + path + ":$PATH " + source + "/tools/pictures.sh " + folder + " && diff -r " +
                             folder + " " + source + "/docs/pictures";
  const ProcessResult result = run_process({"/bin/bash", "-c", script});
  EXPECT_EQ(result.status, 0) << "make pictures draws them anew\n" << result.output << result.errors;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace retile::test
