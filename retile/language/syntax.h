// Programs as written: the tree that the parser makes and the printer prints. Types are resolved except for names of
// abbreviations; nothing else is checked. Where the text is faulty, the tree has a gap, which the checker ignores.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/language/program.h"
#include "retile/plan/plan.h"
#include "retile/types/mesh.h"

namespace retile::language {

// A place in the text. Trees that differ only in places are equal.
struct Place : SourceRange {
  Place() = default;
  explicit Place(SourceRange range) : SourceRange(range) {}
  bool operator==(const Place& /*other*/) const { return true; }
};

// --- Comments.

struct Comment {
  std::string text;          // with its // or /* */
  bool after_blank = false;  // follows a blank line

  bool operator==(const Comment&) const = default;
};

// Comments and empty lines around a declaration, a statement or a closing brace.
struct Surroundings {
  std::vector<Comment> above;  // each on lines of its own; comments from inside are moved here
  bool after_blank = false;    // the thing itself follows a blank line
  std::string beside;          // comments at the end of its last line

  bool operator==(const Surroundings&) const = default;
};

// --- Names and types.

struct Name {
  std::string text;
  Place place;

  bool operator==(const Name&) const = default;
};

struct Gap {
  bool operator==(const Gap&) const = default;
};

// A type as written: an abbreviation or spelled out.
struct TypeSyntax {
  std::variant<Gap, Name, ArrayType> type;
  Place place;

  bool operator==(const TypeSyntax&) const = default;
};

struct LocalTypeSyntax {
  LocalType type;
  Place place;

  bool operator==(const LocalTypeSyntax&) const = default;
};

// --- Computation of a device.

// The word of a local operation and the form of its arguments, one letter each: e expression, E one or more
// expressions, d dimension, n number, s list of sizes, l list of whole numbers, t element type, a mesh axis.
struct OperationForm {
  LocalOp op;
  const char* word;
  const char* arguments;
};

const std::vector<OperationForm>& operation_forms();

// The form of an operation; null for a word that names none.
const OperationForm* find_operation(std::string_view word);

// The words that cannot name values, in the order of the reference.
const std::vector<std::string_view>& keywords();
bool is_keyword(std::string_view word);

struct Expression {
  enum class Kind { name, number, infix, negation, application } kind = Kind::name;
  std::string word;  // the name, the number as written, + - * /, or the operation's word
  std::vector<Expression> operands;
  std::int64_t dimension = 0;                    // if the operation's form has a d
  std::string number;                            // n, as written
  std::vector<std::vector<std::int64_t>> lists;  // s and l
  std::string attribute;                         // t and a: the name
  Place attribute_place;
  Place place;
  int height = 1;  // number of levels of expressions, its own included

  bool operator==(const Expression&) const = default;
};

struct LocalParameter {
  Name name;
  LocalTypeSyntax type;

  bool operator==(const LocalParameter&) const = default;
};

struct LocalStatement {
  Name result;
  std::optional<Expression> expression;  // nothing where the tree has a gap
  std::optional<LocalTypeSyntax> ascription;
  Surroundings surroundings;

  bool operator==(const LocalStatement&) const = default;
};

// --- Operations.

struct SpmdOpSyntax {
  std::vector<Name> operands;
  std::vector<LocalParameter> parameters;
  std::vector<LocalStatement> statements;
  std::vector<Expression> results;
  std::vector<TypeSyntax> types;
  std::string header_beside;  // comments beside the opening brace
  Surroundings return_surroundings;
  Surroundings end_surroundings;  // of the closing brace; comments beside it belong to the statement
  bool has_gap = false;           // the return could not be read

  bool operator==(const SpmdOpSyntax&) const = default;
};

// A name: "redistribute", "distribute", "undistribute", "allreduce".
const char* name_of(Redistribute::Kind kind);
std::optional<Redistribute::Kind> find_redistribution(std::string_view word);

struct RedistributeSyntax {
  Redistribute::Kind kind = Redistribute::Kind::redistribute;
  Name operand;
  std::optional<TypeSyntax> type;  // only undistribute may omit it

  bool operator==(const RedistributeSyntax&) const = default;
};

struct StepSyntax {
  StepOperation operation;  // without lists
  Name operand;
  TypeSyntax type;

  bool operator==(const StepSyntax&) const = default;
};

struct CallSyntax {
  Name function;
  std::vector<Name> operands;

  bool operator==(const CallSyntax&) const = default;
};

struct StatementSyntax {
  std::vector<Name> results;
  std::variant<Gap, SpmdOpSyntax, RedistributeSyntax, StepSyntax, CallSyntax> operation;
  Surroundings surroundings;
  Place place;

  bool operator==(const StatementSyntax&) const = default;
};

// --- Declarations.

struct TypeDeclaration {
  Name name;
  TypeSyntax type;
  Surroundings surroundings;

  bool operator==(const TypeDeclaration&) const = default;
};

struct Parameter {
  Name name;
  TypeSyntax type;

  bool operator==(const Parameter&) const = default;
};

struct FunctionSyntax {
  Name name;
  std::vector<Parameter> parameters;
  std::vector<TypeSyntax> result_types;
  std::vector<StatementSyntax> statements;
  std::vector<Name> results;
  Place return_place;
  Surroundings surroundings;  // `beside` is that of the opening brace
  Surroundings return_surroundings;
  Surroundings end_surroundings;  // of the closing brace
  bool has_head_gap = false;
  bool has_return_gap = false;

  bool operator==(const FunctionSyntax&) const = default;
};

struct SyntaxTree {
  std::shared_ptr<const SourceText> source;  // that places refer to
  std::optional<Mesh> mesh;                  // nothing where the tree has a gap
  Surroundings mesh_surroundings;
  std::vector<std::variant<TypeDeclaration, FunctionSyntax>> declarations;
  Surroundings end_surroundings;  // comments after the last declaration

  bool operator==(const SyntaxTree& other) const {
    return mesh == other.mesh && mesh_surroundings == other.mesh_surroundings && declarations == other.declarations &&
           end_surroundings == other.end_surroundings;
  }
};

}  // namespace retile::language
