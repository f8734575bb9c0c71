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

// The notation whose beginning the text has; nothing where the text may be in retile's own.
std::optional<Notation> recognise_notation(std::string_view text);

// An array as compilers write it.
struct ArrayText {
  ElementType element_type = ElementType::f32;
  std::string element_name;  // as written; a type that retile does not know is moved as one of its size
  bool can_be_added = true;  // false where only the size is known, or the type has no sums
  Shape shape;
};

// Parses f32[16,1024,4096]; sizes alone, such as 16x1024 or (16, 1024), are of f32. Throws InputError.
ArrayText parse_array(const SourceText& source);

struct Ends {
  Layout source;
  Layout target;
};

// Parses both ends of a redistribution, each in its own notation or in retile's. Notations that refer to a mesh without
// defining it need `mesh`. Throws InputError.
Ends parse_ends(const SourceText& source, const SourceText& target, const Shape& shape,
                const std::optional<PlacedMesh>& mesh);

// Both ends, parsed from the shape of the source's tile: the global shape that the tiles make up, and the ends for it.
struct LocalEnds {
  Shape shape;  // global
  Ends ends;
};
LocalEnds parse_local_ends(const SourceText& source, const SourceText& target, const Shape& local,
                           const std::optional<PlacedMesh>& mesh);

// A layout in a notation. From the two texts, parse_ends() makes the same layout.
struct NotationText {
  std::string mesh;  // empty where the layout's text defines it
  std::string layout;
};

// The layout in the notation. Throws InputError with the reason where the notation cannot express it.
NotationText to_notation(const Layout& layout, Notation notation);

}  // namespace retile::interchange
