#include "retile/transfer/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "retile/base/json.h"
#include "retile/base/sentences.h"
#include "retile/base/unknown_keys.h"
#include "retile/interchange/problem_json.h"
#include "retile/plan/text.h"
#include "retile/planner/problem_json.h"

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
      InputFaults faults;
      faults.attempt([&] {
        if (!read_alike(i)) read_line(i);
      });
      if (!faults.faults().empty()) add_faults(faults.faults());
    }
    if (faulty_lines_ > most_told_lines) {
      const auto more = static_cast<std::int64_t>(faulty_lines_ - most_told_lines);
      Diagnostic rest;
      rest.message = fmt::format("{} {} at fault", count_of(more, "more line"), more == 1 ? "is" : "are");
      faults_.add(std::move(rest));
    }
    faults_.require_none();
    return std::move(manifest_);
  }

 private:
  void add_faults(const std::vector<Diagnostic>& faults) {
    if (++faulty_lines_ > most_told_lines) return;
    for (const Diagnostic& fault : faults) faults_.add(fault);
  }

  // A line that differs from one before it in its name alone has the same problem and files: tens of thousands of lines
  // differ so, and need not be parsed.
  bool read_alike(std::size_t index) {
    const std::string_view text = lines_[index].text;
    for (const std::string_view before : befores_) {
      if (!text.starts_with(before)) continue;
      const std::size_t end = text.find_first_of("\"\\", before.size());
      if (end == std::string_view::npos || text[end] == '\\') continue;
      const auto alike = arrays_by_rest_.find(text.substr(end));
      if (alike == arrays_by_rest_.end() || alike->second.before != before) continue;
      std::string name(text.substr(before.size(), end - before.size()));
      add_name(name, index, {before.size() - 1, end + 1});
      NamedArray array = manifest_.arrays[alike->second.array];
      array.name = std::move(name);
      manifest_.arrays.push_back(std::move(array));
      return true;
    }
    return false;
  }

  void read_line(std::size_t index) {
    const SourceText& line = lines_[index];
    JsonValue root = parse_json(line);
    const JsonReader reader(line, root, "the array");
    require_object(reader);
    reader.require_format();
    InputFaults faults;
    find_unknown_keys(line, *root.as<JsonObject>(), fmt::format("name, src_file, dst_file, {}", problem_keys), faults);
    for (JsonMember& member : *root.as<JsonObject>()) {
      auto* rules = member.value.as<JsonObject>();
      if (member.key == "uneven" && rules != nullptr) find_unknown_keys(line, *rules, "src, dst", faults);
    }
    NamedArray array;
    SourceRange place;
    faults.attempt([&] {
      array.name = reader.member("name").string();
      place = reader.member("name").value().range();
      add_name(array.name, index, place);
    });
    faults.attempt([&] {
      if (reader.has("src_file")) array.source_file = reader.member("src_file").string();
      if (reader.has("dst_file")) array.target_file = reader.member("dst_file").string();
    });
    std::optional<Problem> problem;
    faults.attempt([&] {
      problem = interchange::read_problem(reader);
      if (const auto fault = find_fault(*problem))
        reader.member(reader.has("src_sum") ? "src_sum" : "src").fail(*fault);
    });
    faults.require_none();
    array.problem = numbers_.of(*problem, manifest_);
    remember(index, place, array.name);
    manifest_.arrays.push_back(std::move(array));
  }

  static void require_object(const JsonReader& reader) {
    if (reader.value().as<JsonObject>() != nullptr) return;
    reader.fail("a line of a manifest must be an object",
                R"(one array a line: {"name": …, "mesh": …, "shape": …, "src": …, "dst": …})");
  }

  // The array is the next one.
  void remember(std::size_t index, SourceRange place, const std::string& name) {
    const std::string_view text = lines_[index].text;
    if (place.end - place.begin != name.size() + 2) return;  // it has escapes
    const std::string_view before = text.substr(0, place.begin + 1);
    if (std::find(befores_.begin(), befores_.end(), before) == befores_.end()) {
      if (befores_.size() == most_befores) return;
      befores_.push_back(before);
    }
    arrays_by_rest_.try_emplace(text.substr(place.end - 1), *std::find(befores_.begin(), befores_.end(), before),
                                manifest_.arrays.size());
  }

  void add_name(const std::string& name, std::size_t line, SourceRange place) {
    if (name.empty()) throw InputError(diagnose(lines_[line], place, "an array's name is empty"));
    const auto [found, is_new] = lines_by_name_.try_emplace(name, line, place);
    if (is_new) return;
    Diagnostic fault = diagnose(lines_[line], place, fmt::format("two arrays are called \"{}\"", name),
                                "each array has a name of its own");
    fault.notes.push_back(diagnose(lines_[found->second.line], found->second.place, "the first one is here"));
    throw InputError(std::move(fault));
  }

  // At most this many faulty lines are reported.
  static constexpr std::size_t most_told_lines = 20;
  // Names stand at the same place of all lines, or nearly so.
  static constexpr std::size_t most_befores = 8;

  struct Alike {
    Alike(std::string_view line_before, std::size_t number) : before(line_before), array(number) {}
    std::string_view before;
    std::size_t array;  // of the first such line
  };
  struct NamePlace {
    NamePlace(std::size_t name_line, SourceRange range) : line(name_line), place(range) {}
    std::size_t line;
    SourceRange place;
  };

  const std::vector<SourceText>& lines_;
  Manifest manifest_;
  InputFaults faults_;  // of the first lines that have some
  std::size_t faulty_lines_ = 0;
  std::vector<std::string_view> befores_;                       // lines up to their names, the opening quote included
  std::unordered_map<std::string_view, Alike> arrays_by_rest_;  // from the closing quote on
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
  Sentences faults;
  for (const auto& [name, problem] : arrays) {
    if (name.empty()) {
      faults.add("an array's name is empty");
    } else if (!names.insert(name).second) {
      faults.add(fmt::format("two arrays are called \"{}\"", name));
    }
    if (const auto fault = find_fault(problem)) faults.add(fmt::format("array \"{}\": {}", name, fault->message));
    manifest.arrays.push_back({name, numbers.of(problem, manifest)});
  }
  if (!faults.empty()) throw InputError(faults.text(), {});
  return manifest;
}

}  // namespace retile::transfer
