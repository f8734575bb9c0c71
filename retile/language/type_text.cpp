#include "retile/language/type_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/types/scanning.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

bool is_table(Scanner ahead) {
  if (!ahead.accept("[") || !ahead.looking_at_digit()) return false;
  ahead.size("a size");
  return ahead.peek_word() == "of";
}

// dimension = size "of" size ;
void scan_table_dimension(Scanner& scanner, Shape& local, Shape& global) {
  local.push_back(scanner.size("the size of a tile"));
  SourceRange place = scanner.last();
  scanner.expect_word("of", "between the sizes of tile and array");
  global.push_back(scanner.size("the size of an array"));
  place.end = scanner.last().end;
  if (global.back() % local.back() != 0) {
    scanner.fail(place, fmt::format("tiles of {} do not divide {}", local.back(), global.back()));
  }
}

// corner = "[" index { "," index } "]" ;
void scan_corner(Scanner& scanner, const Shape& local, const Shape& global, std::vector<std::int64_t>& corners) {
  const std::size_t begin = scanner.next_position();
  scanner.expect("[", "at the start of a corner");
  std::size_t rank = 0;
  do {
    const std::int64_t offset = scanner.index("an offset");
    if (rank < local.size() && (offset >= global[rank] || offset % local[rank] != 0)) {
      scanner.fail(scanner.last(), fmt::format("{} is no corner of a tile", offset),
                   fmt::format("corners are multiples of {} below {}", local[rank], global[rank]));
    }
    corners.push_back(offset);
    ++rank;
  } while (scanner.accept(","));
  scanner.expect("]", "or ',' after an offset");
  if (rank != local.size()) {
    scanner.fail({begin, scanner.last().end},
                 fmt::format("this corner has {} offsets, and the array's rank is {}", rank, local.size()));
  }
}

// table = "[" dimension { "," dimension } "]" "at" corner { corner } ;
Placement scan_table(Scanner& scanner, const Mesh& mesh) {
  const std::size_t begin = scanner.next_position();
  Shape local;
  Shape global;
  scanner.expect("[", "at the start of a type");
  do {
    scan_table_dimension(scanner, local, global);
  } while (scanner.accept(","));
  scanner.expect("]", "or ',' after a dimension");
  const SourceRange sizes{begin, scanner.last().end};
  if (!checked_product(global)) scanner.fail(sizes, "the global size does not fit in 63 bits");
  scanner.expect_word("at", "before the corners of the devices' tiles");
  std::vector<std::int64_t> corners;
  do {
    scan_corner(scanner, local, global, corners);
  } while (scanner.looking_at("["));
  const SourceRange whole{begin, scanner.last().end};
  Placement table(global, local, std::move(corners));
  if (table.device_count() != mesh.device_count()) {
    scanner.fail(whole, fmt::format("{} corners for {} devices", table.device_count(), mesh.device_count()));
  }
  if (!is_balanced(table)) scanner.fail(whole, "some tiles have more holders than others");
  if (const auto type = find_type(mesh, table)) return Placement(*type);
  return table;
}

// Scans a type, an uneven layout or one that sees dimensions in factors, perhaps with a sum.
ArrayType scan_cut_type(Scanner& scanner, const Mesh& mesh, ElementType element) {
  const std::size_t begin = scanner.next_position();
  MeshLayout cuts = scan_cuts(scanner, mesh);
  const SourceRange place{begin, scanner.last().end};
  for (const std::vector<Factor>& factors : cuts.view) {
    const auto is_empty = [](const Factor& factor) { return factor.size == 0; };
    if (std::any_of(factors.begin(), factors.end(), is_empty)) {
      scanner.fail(place, "arrays of programs have elements", "sizes are 1 or more");
    }
  }
  try {
    return array_type_of(element, std::move(cuts));
  } catch (const InputError& error) {
    scanner.fail(place, error.diagnostic());
  }
}

void check_bytes(const Scanner& scanner, SourceRange place, const Shape& shape, ElementType element) {
  const std::optional<std::int64_t> size = checked_product(shape);
  if (size && checked_multiply(*size, bytes_of(element))) return;
  scanner.fail(place, fmt::format("an array of {} is too large", retile::to_string(shape)),
               "its bytes must fit in 63 bits");
}

std::string element_prefix(ElementType element) { return element == ElementType::f32 ? "" : name_of(element); }

std::string table_text(const Placement& table) {
  std::string out;
  for (std::size_t i = 0; i < table.global_shape().size(); ++i) {
    out += fmt::format("{}{} of {}", i == 0 ? "[" : ", ", table.local_shape()[i], table.global_shape()[i]);
  }
  out += "] at";
  for (Device device = 0; device < table.device_count(); ++device) out += " " + retile::to_string(table.offset(device));
  return out;
}

}  // namespace

bool is_element_type(std::string_view word) { return word == "f32" || word == "f64" || word == "i32"; }

// element = "f32" | "f64" | "i32" ;
ElementType scan_element_type(Scanner& scanner) {
  if (!is_element_type(scanner.peek_word())) {
    scanner.fail_here(fmt::format("expected an element type, found {}", scanner.describe_ahead()),
                      "programs compute with f32, f64 and i32");
  }
  return *find_element_type(scanner.name("an element type"));
}

// type = [ element ] ( cuts | table ) ;
ArrayType scan_array_type(Scanner& scanner, const Mesh& mesh) {
  const std::size_t begin = scanner.next_position();
  const bool named = scanner.looking_at_name();
  const ElementType element = named ? scan_element_type(scanner) : ElementType::f32;
  const bool tabled = is_table(scanner);
  ArrayType type = tabled ? ArrayType{element, scan_table(scanner, mesh)} : scan_cut_type(scanner, mesh, element);
  check_bytes(scanner, {begin, scanner.last().end}, tile_shape(type), element);
  if (tabled && find_reduction(scanner.peek_word())) {
    scanner.fail_here(fmt::format("a placement that no type describes cannot be a {}", scanner.peek_word()));
  }
  return type;
}

// local_type = [ element ] "[" [ size { "," size } ] "]" ;
LocalType scan_local_type(Scanner& scanner) {
  const std::size_t begin = scanner.next_position();
  LocalType type;
  if (scanner.looking_at_name()) type.element = scan_element_type(scanner);
  scanner.expect("[", "at the start of a type");
  if (!scanner.looking_at("]")) {
    do {
      type.shape.push_back(scanner.size("a size"));
    } while (scanner.accept(","));
  }
  scanner.expect("]", "or ',' after a size of a tile");
  check_bytes(scanner, {begin, scanner.last().end}, type.shape, type.element);
  return type;
}

std::string to_string(const Mesh& mesh, const ArrayType& type) {
  const DistributedType* distributed = type.placement.type();
  return element_prefix(type.element) +
         (type.layout              ? retile::to_string(*type.layout)
          : distributed != nullptr ? retile::to_string(*distributed)
                                   : table_text(type.placement)) +
         partial_text(mesh, type.reduction, type.partial);
}

std::string to_string(const LocalType& type) { return element_prefix(type.element) + retile::to_string(type.shape); }

}  // namespace retile::language
