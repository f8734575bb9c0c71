// The checker of one function's statements.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "retile/language/diagnostic_list.h"
#include "retile/language/program.h"
#include "retile/language/syntax.h"

namespace retile::language {

// The signature of a function. Faulty types are missing.
struct Signature {
  Name name;
  std::vector<std::optional<ArrayType>> parameters;
  std::vector<std::optional<ArrayType>> results;
  bool has_gap = false;  // the numbers of parameters and results are not known
};

// The parts of a program that a function can refer to.
struct ProgramScope {
  const Mesh& mesh;
  std::function<std::optional<ArrayType>(const TypeSyntax& type)> resolve;  // reports unknown abbreviations
  std::function<std::optional<int>(const Name& name)> find_function;        // reports unknown functions
  const std::vector<Signature>& signatures;
};

// Checks a function; nothing where it has a fault. Calls use the numbers of the signatures.
std::optional<Function> check_function(const FunctionSyntax& function, const Signature& signature,
                                       const ProgramScope& scope, DiagnosticList& diagnostics);

// The type in words that fit into a message: without the corners of a table.
std::string describe(const Mesh& mesh, const ArrayType& type);

}  // namespace retile::language
