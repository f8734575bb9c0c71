#include "retile/interchange/notation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/names.h"
#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"

namespace retile::interchange {
namespace {

constexpr Names<Notation, 5> names{{"xla", "jax", "shardy", "dtensor", "mlir"}};

struct Opening {
  std::string_view text;
  Notation notation;
};

constexpr std::array openings{
    Opening{"{", Notation::xla},
    Opening{"GSPMDSharding(", Notation::xla},
    Opening{"PartitionSpec(", Notation::jax},
    Opening{"P(", Notation::jax},
    Opening{"NamedSharding(", Notation::jax},
    Opening{"SingleDeviceSharding(", Notation::jax},
    Opening{"#sdy.", Notation::shardy},
    Opening{"<", Notation::shardy},
    Opening{"(", Notation::dtensor},
    Opening{"Shard(", Notation::dtensor},
    Opening{"Replicate(", Notation::dtensor},
    Opening{"Partial(", Notation::dtensor},
    Opening{"_StridedShard(", Notation::dtensor},
    Opening{"#mesh.", Notation::mlir},
    Opening{"#shard.", Notation::mlir},
    Opening{"mesh.", Notation::mlir},
    Opening{"shard.", Notation::mlir},
    Opening{"%", Notation::mlir},
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string_view without_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

struct ElementName {
  std::string_view name;
  ElementType type;
};

// Names of XLA that neither we nor NumPy use.
constexpr std::array xla_element_names{
    ElementName{"pred", ElementType::boolean}, ElementName{"s8", ElementType::i8},
    ElementName{"s16", ElementType::i16},      ElementName{"s32", ElementType::i32},
    ElementName{"s64", ElementType::i64},
};

std::optional<ElementType> find_element(std::string_view name) {
  if (const auto own = find_element_type(name)) return own;
  if (const auto numpy = find_numpy_type(name)) return numpy;
  for (const ElementName& known : xla_element_names) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

// Whether the name is that of another floating-point type of eight bits: retile moves those as bits, but cannot add
// them.
bool is_other_float8(std::string_view name) { return name.starts_with("f8") || name.starts_with("float8"); }

// The shape of a text of sizes alone, as NumPy and people write it: 512x512, (512, 512), [512, 512], 512,512.
std::optional<Shape> find_sizes(std::string_view text) {
  std::string sizes;
  std::copy_if(text.begin(), text.end(), std::back_inserter(sizes), [](char c) { return c != ' '; });
  if (sizes.starts_with('(') || sizes.starts_with('[')) {
    if (!sizes.ends_with(sizes.front() == '(' ? ')' : ']')) return std::nullopt;
    sizes = sizes.substr(1, sizes.size() - 2);
    if (sizes.ends_with(',')) sizes.pop_back();
  }
  Shape shape;
  for (const char *next = sizes.data(), *end = next + sizes.size(); next != end; ++next) {
    const auto [after, error] = std::from_chars(next, end, shape.emplace_back());
    if (error != std::errc() || shape.back() < 0) return std::nullopt;
    if (after == end) return shape;
    if (*after != ',' && *after != 'x') return std::nullopt;
    next = after;
  }
  return std::nullopt;
}

// Refuses texts that a log or Python has shortened.
void require_whole(const SourceText& text) {
  for (const std::string_view dots : {"...", "…"}) {
    if (const std::size_t at = text.text.find(dots); at != std::string::npos) {
      throw InputError(diagnose(text, {at, at + dots.size()}, "the sharding is cut off here", "give it as a whole"));
    }
  }
}

Layout parse_one(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  const auto notation = recognise_notation(text.text);
  if (!notation) {
    if (!mesh || !mesh->devices.empty()) {
      throw InputError(diagnose(text, {0, text.text.size()}, "nothing says which mesh this is of",
                                "give one, as in --mesh x=2,y=4"));
    }
    return parse_layout(text, mesh->mesh);
  }
  switch (*notation) {
    case Notation::xla:
      if (is_named_xla(text.text)) return parse_named_xla(text, shape, mesh);
      return std::move(parse_xla({&text, 1}, shape, mesh).front());
    case Notation::jax:
      return parse_jax(text, shape, mesh);
    case Notation::shardy:
      return parse_shardy(text, shape, mesh);
    case Notation::dtensor:
      return parse_dtensor(text, shape, mesh);
    case Notation::mlir:
      return parse_mlir(text, shape, mesh);
  }
  throw InternalError("unknown notation");
}

}  // namespace

const char* name_of(Notation notation) { return names.of(notation); }

std::optional<Notation> find_notation(std::string_view name) { return names.find(name); }

std::optional<Notation> recognise_notation(std::string_view text) {
  text = without_space(text);
  for (const Opening& opening : openings) {
    if (text.starts_with(opening.text)) return opening.notation;
  }
  const std::string_view inner = text.starts_with('[') ? without_space(text.substr(1)) : "";
  if (!inner.empty() && is_letter(inner.front())) return Notation::dtensor;  // [Shard(0), Replicate()]
  return std::nullopt;
}

// array ::= name '[' [ size { ',' size } ] ']'
ArrayText scan_array(Scanner& scanner) {
  ArrayText array;
  array.element_name = scanner.name("an element type");
  const auto element = find_element(array.element_name);
  if (!element && !is_other_float8(array.element_name)) {
    scanner.fail(scanner.last(), fmt::format("unknown element type '{}'", array.element_name),
                 fmt::format("retile moves {}", element_type_names));
  }
  array.element_type = element.value_or(ElementType::u8);
  array.can_be_added = element && can_be_combined(*element);
  scanner.expect("[", "before the sizes of an array");
  const std::size_t begin = scanner.last().begin;
  if (!scanner.looking_at("]")) {
    do {
      array.shape.push_back(scanner.index("a size"));
    } while (scanner.accept(","));
  }
  scanner.expect("]", "or ',' after a size");
  if (!checked_product(array.shape)) {
    scanner.fail({begin, scanner.last().end}, "the number of elements does not fit in 63 bits");
  }
  return array;
}

ArrayText parse_array(const SourceText& source) {
  if (auto sizes = find_sizes(source.text); sizes && checked_product(*sizes)) {
    return {ElementType::f32, name_of(ElementType::f32), true, *std::move(sizes)};
  }
  Scanner scanner(source);
  ArrayText array = scan_array(scanner);
  if (scanner.looking_at("{")) skip_brackets(scanner);  // the order of dimensions in memory
  scanner.expect_end("the array");
  return array;
}

Ends parse_ends(const SourceText& source, const SourceText& target, const Shape& shape,
                const std::optional<PlacedMesh>& mesh) {
  require_whole(source);
  require_whole(target);
  const auto is_tiled = [](const SourceText& text) {
    return recognise_notation(text.text) == Notation::xla && !is_named_xla(text.text);
  };
  if (!is_tiled(source) || !is_tiled(target)) return {parse_one(source, shape, mesh), parse_one(target, shape, mesh)};
  const std::array texts{source, target};
  std::vector<Layout> layouts = parse_xla(texts, shape, mesh);
  return {std::move(layouts[0]), std::move(layouts[1])};
}

LocalEnds parse_local_ends(const SourceText& source, const SourceText& target, const Shape& local,
                           const std::optional<PlacedMesh>& mesh) {
  const auto cuts = parse_ends(source, target, local, mesh).source.cuts();
  Shape shape = local;
  for (std::size_t i = 0; cuts && i < shape.size(); ++i) {
    for (const Factor& factor : cuts->view[i]) {
      const auto larger = checked_multiply(shape[i], tile_count(factor.axes));
      if (!larger) throw InputError("the number of elements of the whole array does not fit in 63 bits", {});
      shape[i] = *larger;
    }
  }
  Ends ends = parse_ends(source, target, shape, mesh);
  return {std::move(shape), std::move(ends)};
}

NotationText to_notation(const Layout& layout, Notation notation) {
  switch (notation) {
    case Notation::xla:
      return {{}, to_xla(layout)};
    case Notation::jax:
      return to_jax(layout);
    case Notation::shardy:
      return to_shardy(layout);
    case Notation::dtensor:
      return to_dtensor(layout);
    case Notation::mlir:
      return to_mlir(layout);
  }
  throw InternalError("unknown notation");
}

}  // namespace retile::interchange
