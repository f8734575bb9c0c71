// Problem: an array in one layout, wanted in another.
#pragma once

#include <optional>
#include <string>

#include "retile/base/diagnostic.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"

namespace retile {

// Source and target are on one mesh and have equal global shapes (ssec:redistribution-semantics).
class Problem {
 public:
  // Throws InputError where find_fault() finds one.
  Problem(std::string id, DistributedType source, DistributedType target, ElementType element_type = ElementType::f32);

  static std::optional<Fault> find_fault(const DistributedType& source, const DistributedType& target);

  const std::string& id() const { return id_; }
  const Mesh& mesh() const { return source_.mesh(); }
  const DistributedType& source() const { return source_; }
  const DistributedType& target() const { return target_; }
  ElementType element_type() const { return element_type_; }

 private:
  std::string id_;
  DistributedType source_;
  DistributedType target_;
  ElementType element_type_;
};

// A problem as a line of JSON. A problem without "id" is called by its line. Throws InputError.
Problem parse_problem(const SourceText& line);

// The same from the texts of its mesh and types.
Problem parse_problem(const SourceText& mesh, const SourceText& source, const SourceText& target,
                      ElementType element_type = ElementType::f32);

// A line without its end, from which parse_problem() makes an equal problem.
std::string to_json(const Problem& problem);

// "p1: f32 on mesh {a: 2} from [4{a}8] to [8]".
std::string to_string(const Problem& problem);

}  // namespace retile
