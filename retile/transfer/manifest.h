// Manifests: the arrays of a model, each in one layout and wanted in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "retile/base/input_errors.h"
#include "retile/planner/problem.h"

namespace retile::transfer {

struct NamedArray {
  std::string name;
  std::size_t problem = 0;       // in the manifest's problems
  std::string source_file = {};  // that has its elements; empty: they are made up
  std::string target_file = {};  // that gets them; empty: none
};

// Layers are alike: what many arrays have in common is there once.
struct Manifest {
  std::vector<Problem> problems;  // no two alike
  std::vector<NamedArray> arrays;

  // The smallest world that all arrays fit in.
  std::int64_t device_count() const;
};

// Why the array cannot be part of a transfer; nothing where it can.
std::optional<Fault> find_fault(const Problem& problem);

// One problem a line, each with a "name" of its own. Throws InputErrors with all that is wrong with it.
Manifest parse_manifest(const std::vector<SourceText>& lines);

// Makes a manifest from problems and their names. Throws InputError.
Manifest make_manifest(const std::vector<std::pair<std::string, Problem>>& arrays);

}  // namespace retile::transfer
