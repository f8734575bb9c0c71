#include "retile/transfer/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "retile/base/json.h"

namespace retile::transfer {
namespace {

// The number of the problem among those without an id.
class ProblemNumbers {
 public:
  std::size_t of(const Problem& problem, Manifest& manifest) {
    Problem nameless({}, problem.source(), problem.target(), problem.element_type());
    const auto [found, is_new] = numbers_.try_emplace(to_json(nameless), manifest.problems.size());
    if (is_new) manifest.problems.push_back(std::move(nameless));
    return found->second;
  }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
};

class ManifestReader {
 public:
  explicit ManifestReader(const std::vector<SourceText>& lines) : lines_(lines) {}

  Manifest read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      try {
        if (!read_alike(i)) read_line(i);
      } catch (const InputErrors& errors) {
        faults_.insert(faults_.end(), errors.diagnostics().begin(), errors.diagnostics().end());
      } catch (const InputError& error) {
        faults_.push_back(error.diagnostic());
      }
    }
    if (!faults_.empty()) throw InputErrors(std::move(faults_));
    return std::move(manifest_);
  }

 private:
  // A line that differs from one before it in its name alone has the same problem: tens of thousands of lines differ
  // so, and need not be parsed.
  bool read_alike(std::size_t index) {
    const std::string_view text = lines_[index].text;
    for (const std::string_view before : befores_) {
      if (!text.starts_with(before)) continue;
      const std::size_t end = text.find_first_of("\"\\", before.size());
      if (end == std::string_view::npos || text[end] == '\\') continue;
      const auto alike = problems_by_rest_.find(text.substr(end));
      if (alike == problems_by_rest_.end() || alike->second.before != before) continue;
      add_array(std::string(text.substr(before.size(), end - before.size())), alike->second.problem, index,
                {before.size() - 1, end + 1});
      return true;
    }
    return false;
  }

  void read_line(std::size_t index) {
    const SourceText& line = lines_[index];
    const JsonValue root = parse_json(line);
    const JsonReader reader(line, root, "the array");
    std::vector<Diagnostic> faults;
    const auto collect = [&](const auto& action) {
      try {
        action();
      } catch (const InputError& error) {
        faults.push_back(error.diagnostic());
      }
    };
    std::string name;
    std::optional<Problem> problem;
    SourceRange place;
    collect([&] {
      name = reader.member("name").string();
      place = reader.member("name").value().range();
    });
    collect([&] {
      problem = parse_problem(line);
      if (auto fault = find_fault(*problem)) {
        reader.member("src_sum").fail(std::move(fault->message), std::move(fault->hint));
      }
    });
    if (!faults.empty()) throw InputErrors(std::move(faults));
    const std::size_t number = numbers_.of(*problem, manifest_);
    remember(index, place, name, number);
    add_array(std::move(name), number, index, place);
  }

  void remember(std::size_t index, SourceRange place, const std::string& name, std::size_t problem) {
    const std::string_view text = lines_[index].text;
    if (place.end - place.begin != name.size() + 2) return;  // it has escapes
    const std::string_view before = text.substr(0, place.begin + 1);
    if (std::find(befores_.begin(), befores_.end(), before) == befores_.end()) {
      if (befores_.size() == most_befores) return;
      befores_.push_back(before);
    }
    problems_by_rest_.try_emplace(text.substr(place.end - 1), *std::find(befores_.begin(), befores_.end(), before),
                                  problem);
  }

  void add_array(std::string name, std::size_t problem, std::size_t line, SourceRange place) {
    const auto [found, is_new] = lines_by_name_.try_emplace(name, line, place);
    if (!is_new) {
      Diagnostic fault = diagnose(lines_[line], place, fmt::format("two arrays are called \"{}\"", name),
                                  "each array has a name of its own");
      fault.notes.push_back(diagnose(lines_[found->second.line], found->second.place, "the first one is here"));
      throw InputError(std::move(fault));
    }
    manifest_.arrays.push_back({std::move(name), problem});
  }

  // Names stand at the same place of all lines, or nearly so.
  static constexpr std::size_t most_befores = 8;

  struct Alike {
    Alike(std::string_view line_before, std::size_t number) : before(line_before), problem(number) {}
    std::string_view before;
    std::size_t problem;
  };
  struct NamePlace {
    NamePlace(std::size_t name_line, SourceRange range) : line(name_line), place(range) {}
    std::size_t line;
    SourceRange place;
  };

  const std::vector<SourceText>& lines_;
  Manifest manifest_;
  std::vector<Diagnostic> faults_;
  std::vector<std::string_view> befores_;                         // lines up to their names, the opening quote included
  std::unordered_map<std::string_view, Alike> problems_by_rest_;  // from the closing quote on
  ProblemNumbers numbers_;
  std::unordered_map<std::string, NamePlace> lines_by_name_;
};

}  // namespace

std::int64_t Manifest::device_count() const {
  std::int64_t devices = 1;
  for (const Problem& problem : problems) devices = std::max(devices, problem.device_count());
  return devices;
}

std::optional<Fault> find_fault(const Problem& problem) {
  if (!problem.source().is_partial()) return std::nullopt;
  return Fault{"a transfer moves arrays, and this one is a sum", "redistribute it first: retile run reduces sums"};
}

Manifest parse_manifest(const std::vector<SourceText>& lines) { return ManifestReader(lines).read(); }

Manifest make_manifest(const std::vector<std::pair<std::string, Problem>>& arrays) {
  Manifest manifest;
  ProblemNumbers numbers;
  std::set<std::string_view> names;
  for (const auto& [name, problem] : arrays) {
    if (!names.insert(name).second) {
      throw InputError(fmt::format("two arrays are called \"{}\"", name), "each array has a name of its own");
    }
    if (auto fault = find_fault(problem)) {
      throw InputError(fmt::format("array \"{}\": {}", name, fault->message), std::move(fault->hint));
    }
    manifest.arrays.push_back({name, numbers.of(problem, manifest)});
  }
  return manifest;
}

}  // namespace retile::transfer
