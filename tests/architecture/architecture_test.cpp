// Folders include only what the architecture allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace retile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct FolderRule {
  std::string folder;             // as folder_of() names it
  std::vector<std::string> sees;  // folders besides itself
};

// Top to bottom along the path of the data. What is not a folder of retile/, its pipeline and the command, sees all.
const std::vector<FolderRule> folder_rules{
    {"base", {}},
    {"types", {"base"}},
    {"machine", {"base", "types"}},
    {"grids", {"base", "types"}},
    {"collectives", {"base", "types"}},
    {"plan", {"base", "types", "grids", "collectives"}},
    {"costs", {"base", "types", "machine", "grids", "collectives", "plan"}},
    {"planner", {"base", "types", "machine", "grids", "collectives", "plan", "costs"}},
    {"memory", {"base", "types", "plan"}},
    {"copies", {"base", "types", "plan", "memory"}},
    {"schedule", {"base", "types", "grids", "plan", "memory", "copies"}},
    {"engines", {"base", "types", "grids", "plan", "memory", "copies", "schedule"}},
    {"checking", {"base", "types", "grids", "plan", "memory", "copies", "schedule", "engines"}},
    {"tensors", {"base", "types", "machine", "grids", "collectives", "plan"}},
    {"emission", {"base", "types", "machine", "grids", "collectives", "plan", "memory", "schedule", "tensors"}},
    {"interchange", {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner"}},
    {"transfer",
     {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner", "memory", "copies", "schedule",
      "engines", "checking", "interchange"}},
    {"language", {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner"}},
    {"runtime",
     {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner", "language", "memory", "copies",
      "schedule", "engines", "checking"}},
    {"drawing", {"base", "types", "grids", "collectives", "plan", "schedule"}},
    {"files",
     {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner", "memory", "copies", "schedule",
      "engines", "interchange"}},
    {"contenders", {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner"}},
    {"explanation",
     {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner", "interchange", "contenders"}},
    {"evaluation",
     {"base", "types", "machine", "grids", "collectives", "plan", "costs", "planner", "memory", "copies", "schedule",
      "engines", "checking", "contenders"}},
};

// The core is `retile`; what is built on it has a namespace of its own.
struct NamespaceRule {
  std::string headers;                  // a regular expression for the path
  std::vector<std::string> namespaces;  // one of them
};

const std::vector<NamespaceRule> namespace_rules{
    {"retile/engines/mpi[/_].*", {"retile::mpi"}},
    {"retile/engines/cuda(_mpi)?/.*", {"retile::cuda"}},
    {"retile/(base|types|machine|grids|collectives|plan|costs|planner|memory|copies|schedule|engines|checking)/.*",
     {"retile"}},
    {"retile/transfer[/.].*", {"retile::transfer"}},
    {"retile/language/.*", {"retile::language"}},
    {"retile/runtime/.*", {"retile::runtime"}},
    {"retile/files/.*", {"retile::files"}},
    {"retile/drawing/.*", {"retile::drawing"}},
    {"retile/interchange/.*", {"retile::interchange"}},
    {"retile/tensors/.*", {"retile::tensors"}},
    {"retile/emission/.*", {"retile::emission"}},
    {"retile/contenders/.*", {"retile::contenders"}},
    {"retile/explanation/.*", {"retile::explanation"}},
    {"evaluation/.*", {"retile::evaluation"}},
    {"retile/mpi.h", {"retile::mpi"}},
    {"retile/[^/]*", {"retile"}},
    {"tools/.*", {"retile::command"}},
};

// Whether it joins the folders of retile/: what lies directly in it, but for the version, which has no dependencies.
bool is_joining(const std::string& header) {
  static const std::regex directly("retile/[^/]*");
  return std::regex_match(header, directly) && header != "retile/version.h";
}

struct LibraryRule {
  std::string header;  // a regular expression for the whole name
  std::string files;   // and for the path of the files that may include it
  std::string place;   // in words
};

const std::vector<LibraryRule> library_rules{
    {"mpi\\.h", "retile/(engines/(cuda_)?mpi/.*|mpi\\.h)", "retile/engines/mpi"},
    {"nlohmann/.*", "(retile|evaluation)/.*\\.cpp", "a .cpp file of the library"},
    {"CLI/.*", "tools/retile/parser/.*", "tools/retile/parser"},
    {"(blosc|zstd|lz4|zlib)\\.h", "retile/files/codec\\.cpp", "retile/files/codec.cpp"},
    {"Eigen/.*", "retile/(runtime|copies)/.*\\.cpp", "a .cpp file of retile/runtime or retile/copies"},
};

struct SourceFile {
  std::string path;  // from the root of the repository
  std::string text;
};

std::vector<std::string> included_headers(const std::string& text) {
  static const std::regex include(R"(^\s*#\s*include\s*["<]([^">]+)[">][^]*)");
  std::vector<std::string> headers;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, include)) headers.push_back(match[1]);
  }
  return headers;
}

// "plan" for retile/plan/json.h, "evaluation" for what is in evaluation/, "" for retile/pipeline.h and the rest.
std::string folder_of(const std::string& path) {
  static const std::regex in_folder("retile/([^/]+)/.*|(evaluation)/.*");
  std::smatch match;
  if (!std::regex_match(path, match, in_folder)) return "";
  return match[1].str() + match[2].str();
}

const FolderRule* rule_of(const std::string& folder) {
  for (const FolderRule& rule : folder_rules) {
    if (rule.folder == folder) return &rule;
  }
  return nullptr;
}

bool contains(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

// Why a file of the folder may not include the header; empty where it may.
std::string folder_violation(const FolderRule& rule, const std::string& header) {
  if (is_joining(header)) return "only the command may include the pipeline";
  if (header.starts_with("tools/") || header.starts_with("tests/")) return "the library stands alone";
  const std::string included = folder_of(header);
  if (included.empty() || included == rule.folder || contains(rule.sees, included)) return "";
  return rule.folder + " does not see " + included;
}

std::string library_violation(const std::string& path, const std::string& header) {
  for (const LibraryRule& rule : library_rules) {
    if (!std::regex_match(header, std::regex(rule.header))) continue;
    if (!std::regex_match(path, std::regex(rule.files))) return "it belongs into " + rule.place + " alone";
  }
  return "";
}

std::vector<std::string> find_violations(const SourceFile& file) {
  std::vector<std::string> violations;
  const std::string folder = folder_of(file.path);
  const FolderRule* rule = rule_of(folder);
  if (!folder.empty() && rule == nullptr) violations.push_back(file.path + ": there is no rule for its folder");
  for (const std::string& header : included_headers(file.text)) {
    const auto report = [&](const std::string& why) {
      if (!why.empty()) violations.push_back(file.path + " includes " + header + ": " + why);
    };
    if (rule != nullptr) report(folder_violation(*rule, header));
    if (rule == nullptr && file.path.starts_with("retile/") && header.starts_with("evaluation/")) {
      report("the library stands alone");
    }
    report(library_violation(file.path, header));
  }
  return violations;
}

std::vector<SourceFile> read_sources(const std::string& top) {
  namespace fs = std::filesystem;
  const fs::path root(RETILE_SOURCE_DIR);
  std::vector<SourceFile> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files.push_back({fs::relative(entry.path(), root).generic_string(), text.str()});
  }
  return files;
}

TEST(Architecture, folders_include_only_what_they_see) {
  std::vector<std::string> violations;
  int includes = 0;
  for (const char* top : {"retile", "evaluation", "tools"}) {
    const std::vector<SourceFile> files = read_sources(top);
    EXPECT_FALSE(files.empty()) << top;
    for (const SourceFile& file : files) {
      includes += static_cast<int>(included_headers(file.text).size());
      for (const std::string& violation : find_violations(file)) violations.push_back(violation);
    }
  }
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_GT(includes, 200) << "the sources were not read";
}

// The namespaces that a file opens, nested ones and those of other libraries left out.
std::vector<std::string> opened_namespaces(const std::string& text) {
  static const std::regex opens(R"(namespace (retile[\w:]*) \{\s*)");
  std::vector<std::string> names;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, opens) && !contains(names, match[1])) names.push_back(match[1]);
  }
  return names;
}

std::vector<std::string> find_namespace_violations(const SourceFile& file) {
  const auto rule = std::find_if(namespace_rules.begin(), namespace_rules.end(), [&](const NamespaceRule& candidate) {
    return std::regex_match(file.path, std::regex(candidate.headers));
  });
  if (rule == namespace_rules.end()) return {file.path + ": there is no rule for its namespace"};
  std::vector<std::string> violations;
  const std::vector<std::string> opened = opened_namespaces(file.text);
  const bool is_front_door = file.path == "retile/retile.h";  // it only includes
  if (opened.empty() && !is_front_door) violations.push_back(file.path + " opens no namespace of its own");
  for (const std::string& name : opened) {
    if (!contains(rule->namespaces, name)) violations.push_back(file.path + " opens " + name);
  }
  return violations;
}

TEST(Architecture, headers_are_in_the_namespace_of_their_folder) {
  std::vector<std::string> violations;
  int headers = 0;
  for (const char* top : {"retile", "evaluation", "tools"}) {
    for (const SourceFile& file : read_sources(top)) {
      if (!file.path.ends_with(".h")) continue;
      ++headers;
      for (const std::string& violation : find_namespace_violations(file)) violations.push_back(violation);
    }
  }
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_GT(headers, 80) << "the headers were not read";
}

TEST(ArchitectureChecker, finds_headers_in_another_namespace) {
  EXPECT_THAT(find_namespace_violations({"retile/plan/x.h", "namespace retile {\n}\n"}), IsEmpty());
  EXPECT_THAT(find_namespace_violations({"retile/runtime/x.h", "namespace retile::runtime {\n}\n"}), IsEmpty());
  EXPECT_THAT(find_namespace_violations({"retile/runtime/x.h", "namespace retile {\n}\n"}),
              ElementsAre("retile/runtime/x.h opens retile"));
  EXPECT_THAT(find_namespace_violations({"retile/plan/x.h", "namespace retile::plan {\n}\nnamespace retile {\n}\n"}),
              ElementsAre("retile/plan/x.h opens retile::plan"));
  EXPECT_THAT(find_namespace_violations({"retile/plan/x.h", "int x;\n"}),
              ElementsAre("retile/plan/x.h opens no namespace of its own"));
  EXPECT_THAT(find_namespace_violations({"retile/utils/x.h", ""}),
              ElementsAre("retile/utils/x.h: there is no rule for its namespace"));
}

TEST(Architecture, rules_see_only_folders_above_them) {
  std::vector<std::string> above;
  for (const FolderRule& rule : folder_rules) {
    for (const std::string& seen : rule.sees) EXPECT_TRUE(contains(above, seen)) << rule.folder << " sees " << seen;
    above.push_back(rule.folder);
  }
}

TEST(ArchitectureChecker, reads_includes) {
  EXPECT_THAT(included_headers("#include <vector>\n  #  include \"retile/a.h\"  // why\n#include<b.h>\r\n"),
              ElementsAre("vector", "retile/a.h", "b.h"));
  EXPECT_THAT(included_headers("// #include <vector>\nint include = 3;\n#define INCLUDE \"x\"\n"), IsEmpty());
}

TEST(ArchitectureChecker, allows_what_is_below) {
  EXPECT_THAT(find_violations({"retile/planner/search.cpp",
                               "#include \"retile/plan/plan.h\"\n"
                               "#include \"retile/planner/search.h\"\n"
                               "#include \"retile/version.h\"\n"
                               "#include <nlohmann/json.hpp>\n"
                               "#include <vector>\n"}),
              IsEmpty());
  EXPECT_THAT(find_violations({"retile/pipeline.cpp", "#include \"retile/checking/run.h\"\n"}), IsEmpty());
  EXPECT_THAT(find_violations({"tools/retile/parser/main.cpp", "#include <CLI/CLI.hpp>\n"}), IsEmpty());
  EXPECT_THAT(find_violations({"retile/engines/mpi/run.cpp", "#include <mpi.h>\n"}), IsEmpty());
}

TEST(ArchitectureChecker, finds_what_is_above_or_beside) {
  EXPECT_THAT(find_violations({"retile/types/mesh.h", "#include \"retile/plan/plan.h\"\n"}),
              ElementsAre("retile/types/mesh.h includes retile/plan/plan.h: types does not see plan"));
  EXPECT_THAT(find_violations({"retile/engines/run.cpp", "#include \"retile/collectives/sequence.h\"\n"}),
              ElementsAre("retile/engines/run.cpp includes retile/collectives/sequence.h: engines does not see "
                          "collectives"));
  EXPECT_THAT(find_violations({"retile/language/lower.cpp", "#include \"retile/engines/engine.h\"\n"}),
              ElementsAre("retile/language/lower.cpp includes retile/engines/engine.h: language does not see engines"));
  EXPECT_THAT(find_violations({"retile/planner/x.cpp", "#include \"retile/contenders/xla.h\"\n"}),
              ElementsAre("retile/planner/x.cpp includes retile/contenders/xla.h: planner does not see contenders"));
}

TEST(ArchitectureChecker, finds_folders_without_a_rule) {
  EXPECT_THAT(find_violations({"retile/utils/x.h", ""}),
              ElementsAre("retile/utils/x.h: there is no rule for its folder"));
  EXPECT_THAT(find_violations({"retile/plan/x.h", "#include \"retile/utils/x.h\"\n"}),
              ElementsAre("retile/plan/x.h includes retile/utils/x.h: plan does not see utils"));
}

TEST(ArchitectureChecker, finds_a_library_that_does_not_stand_alone) {
  EXPECT_THAT(find_violations({"retile/plan/x.h", "#include \"retile/pipeline.h\"\n"}),
              ElementsAre("retile/plan/x.h includes retile/pipeline.h: only the command may include the pipeline"));
  EXPECT_THAT(
      find_violations({"retile/plan/x.h", "#include \"retile/caller_memory.h\"\n"}),
      ElementsAre("retile/plan/x.h includes retile/caller_memory.h: only the command may include the pipeline"));
  EXPECT_THAT(find_violations({"retile/plan/x.h", "#include \"tests/support/plans.h\"\n"}),
              ElementsAre("retile/plan/x.h includes tests/support/plans.h: the library stands alone"));
  EXPECT_THAT(find_violations({"retile/plan/x.h", "#include \"tools/retile/input.h\"\n"}),
              ElementsAre("retile/plan/x.h includes tools/retile/input.h: the library stands alone"));
}

TEST(ArchitectureChecker, finds_a_library_that_carries_the_evaluation) {
  EXPECT_THAT(find_violations({"retile/pipeline.h", "#include \"evaluation/measure.h\"\n"}),
              ElementsAre("retile/pipeline.h includes evaluation/measure.h: the library stands alone"));
  EXPECT_THAT(find_violations({"tools/retile/bench_command.cpp", "#include \"evaluation/measure.h\"\n"}), IsEmpty());
}

TEST(ArchitectureChecker, finds_libraries_out_of_place) {
  EXPECT_THAT(find_violations({"retile/engines/run.cpp", "#include <mpi.h>\n"}),
              ElementsAre("retile/engines/run.cpp includes mpi.h: it belongs into retile/engines/mpi alone"));
  EXPECT_THAT(
      find_violations({"retile/base/json.h", "#include <nlohmann/json.hpp>\n"}),
      ElementsAre("retile/base/json.h includes nlohmann/json.hpp: it belongs into a .cpp file of the library alone"));
  EXPECT_THAT(find_violations({"retile/costs/x.cpp", "#include \"CLI/CLI.hpp\"\n"}),
              ElementsAre("retile/costs/x.cpp includes CLI/CLI.hpp: it belongs into tools/retile/parser alone"));
  EXPECT_THAT(find_violations({"retile/runtime/x.h", "#include <Eigen/Core>\n"}),
              ElementsAre("retile/runtime/x.h includes Eigen/Core: it belongs into a .cpp file of retile/runtime or "
                          "retile/copies alone"));
}

}  // namespace
}  // namespace retile
