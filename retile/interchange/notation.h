// Notations of other systems for how arrays are laid out: from text to layouts, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "retile/base/diagnostic.h"
#include "retile/interchange/placed_mesh.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"

namespace retile::interchange {

enum class Notation {
  xla,      // {devices=[2,1,4]<=[4,2]T(1,0)}
  jax,      // PartitionSpec('x', None)
  shardy,   // #sdy.sharding<@mesh, [{"x"}, {}]>
  dtensor,  // (Shard(dim=0), Replicate())
  mlir,     // mesh.sharding @mesh split_axes = [[0], []]
};

constexpr std::string_view notation_names = "xla, jax, shardy, dtensor, mlir";

const char* name_of(Notation notation);
std::optional<Notation> find_notation(std::string_view name);

// The notation that a text begins like; nothing where it may be retile's own.
std::optional<Notation> recognise_notation(std::string_view text);

// An array as compilers write it.
struct ArrayText {
  ElementType element_type = ElementType::f32;
  std::string element_name;  // as it was written; a type that retile has no name for is moved as one of its size
  bool can_be_added = true;  // not where only the size is the same, nor where no sums are taken of the type
  Shape shape;
};

// f32[16,1024,4096]; sizes alone, as in 16x1024 or (16, 1024), are of f32. Throws InputError.
ArrayText parse_array(const SourceText& source);

struct Ends {
  Layout source;
  Layout target;
};

// Both ends of a redistribution, each in its own notation or in retile's. A mesh is needed by notations that refer to
// one without saying it. Throws InputError.
Ends parse_ends(const SourceText& source, const SourceText& target, const Shape& shape,
                const std::optional<PlacedMesh>& mesh);

// Both ends where the shape of a source's tile is given: the shape that the tiles make up, then the ends for it.
struct LocalEnds {
  Shape shape;  // global
  Ends ends;
};
LocalEnds parse_local_ends(const SourceText& source, const SourceText& target, const Shape& local,
                           const std::optional<PlacedMesh>& mesh);

// A layout in words of a notation: from the two texts, parse_ends() makes the same layout.
struct NotationText {
  std::string mesh;  // empty where the layout's text says it all
  std::string layout;
};

// Throws InputError with the reason where the notation cannot say it.
NotationText to_notation(const Layout& layout, Notation notation);

}  // namespace retile::interchange
