// The text form of meshes and types. What is printed parses back to an equal value.
//
//   mesh      a=2,b=2   {a: 2, "b": 2}                      bare or quoted names, = or :
//   type      [8{"x","y"}32, 128]   [8{x:4,y}32, 128]       128 alone is 128{}128
//   part      x:(2)3                                        size 3, below parts that count 2
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "retile/base/diagnostic.h"
#include "retile/types/distributed_type.h"
#include "retile/types/mesh.h"

namespace retile {

// Parse a text that is one mesh or one type. Throw InputError.
Mesh parse_mesh(const SourceText& source);
Mesh parse_mesh(std::string_view text);
DistributedType parse_type(const SourceText& source, const Mesh& mesh);
DistributedType parse_type(std::string_view text, const Mesh& mesh);

std::string to_string(const Mesh& mesh);  // {a: 2, b: 2}
std::string to_string(const DistributedType& type);
std::string to_string(const Mesh& mesh, const AxisPart& part);
std::string to_string(const Mesh& mesh, std::span<const AxisPart> parts);  // x,y:(2)3
std::string to_string(const Shape& shape);                                 // [8, 128]

}  // namespace retile
