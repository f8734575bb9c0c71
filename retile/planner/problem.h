// Problems: an array in one layout, wanted in another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "retile/base/diagnostic.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"

namespace retile {

// Source and target are layouts of one array on the devices of one world, 0 to device_count() - 1.
class Problem {
 public:
  // Where the target is partial over parts of the source's axes, both become partial over prime parts. Throws
  // InputError where find_fault() finds a fault.
  Problem(std::string id, Layout source, Layout target, ElementType element_type = ElementType::f32);

  static std::optional<Fault> find_fault(const Layout& source, const Layout& target, ElementType element_type);

  const std::string& id() const { return id_; }
  const Layout& source() const { return source_; }
  const Layout& target() const { return target_; }
  ElementType element_type() const { return element_type_; }
  std::int64_t device_count() const;

 private:
  std::string id_;
  Layout source_;
  Layout target_;
  ElementType element_type_;
};

// A problem between types of one mesh (ssec:redistribution-semantics), and the bytes of an element. Refers to the
// types.
class TypedProblem {
 public:
  TypedProblem(const DistributedType& source, const DistributedType& target, std::int64_t element_size = 1)
      : source_(&source), target_(&target), element_size_(element_size) {}

  const Mesh& mesh() const { return source_->mesh(); }
  const DistributedType& source() const { return *source_; }
  const DistributedType& target() const { return *target_; }
  std::int64_t element_size() const { return element_size_; }

 private:
  const DistributedType* source_;
  const DistributedType* target_;
  std::int64_t element_size_;
};

// The problem between types; nothing where an end is no type, or the ends are on different meshes.
std::optional<TypedProblem> typed(const Problem& problem);
// The problem between types. Throws InputError where typed() returns nothing.
TypedProblem require_typed(const Problem& problem);

// Parses a problem from a line of JSON. A problem without "id" is named after its line; unknown keys are ignored.
// Throws InputError.
Problem parse_problem(const SourceText& line);

// Parses a problem from the texts of its mesh and layouts, and of the target's mesh where that is another.
Problem parse_problem(const SourceText& mesh, const SourceText& source, const SourceText& target,
                      ElementType element_type = ElementType::f32,
                      const std::optional<SourceText>& target_mesh = std::nullopt);

// The problem as a line of JSON, without its end; parse_problem() makes an equal problem from it.
std::string to_json(const Problem& problem);

// "p1: f32 on mesh {a: 2} from [4{a}8] to [8]".
std::string to_string(const Problem& problem);

}  // namespace retile
