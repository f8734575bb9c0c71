// The text form of the types of programs.
//
//   f32[8{x}64, 3] sum {y}           element type (f32 if omitted), then a layout as in types/layout.h
//   [2 of 4] at [0] [2] [2] [0]      a placement that no type describes: tile and global sizes, a corner per device
//   i32[8, 16]                       an array on one device
#pragma once

#include <string>

#include "retile/base/scanner.h"
#include "retile/language/program.h"

namespace retile::language {

// Each throws InputError.
ArrayType scan_array_type(Scanner& scanner, const Mesh& mesh);
LocalType scan_local_type(Scanner& scanner);
ElementType scan_element_type(Scanner& scanner);

// Whether the word is f32, f64 or i32.
bool is_element_type(std::string_view word);

// The types as text; f32 is omitted.
std::string to_string(const Mesh& mesh, const ArrayType& type);
std::string to_string(const LocalType& type);

}  // namespace retile::language
