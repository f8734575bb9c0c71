// The parser of sequence files.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "retile/base/scanner.h"
#include "retile/collectives/sequence.h"
#include "retile/types/text.h"

namespace retile {
namespace {

int scan_dimension_index(Scanner& scanner, const DistributedType& type) {
  const std::int64_t index = scanner.index("a dimension");
  if (index >= type.rank()) {
    scanner.fail(scanner.last(), fmt::format("there is no dimension {}", index),
                 fmt::format("{} has rank {}; dimensions count from 0", to_string(type), type.rank()));
  }
  return static_cast<int>(index);
}

// axes ::= [ ';' part { ',' part } ]
std::vector<AxisPart> scan_axes(Scanner& scanner, const Mesh& mesh) {
  std::vector<AxisPart> axes;
  if (!scanner.accept(";")) return axes;
  do {
    axes.push_back(scan_axis_part(scanner, mesh));
  } while (scanner.accept(","));
  return axes;
}

// The axes that a step without axes acts on: the most minor one of the dimension.
std::vector<AxisPart> most_minor_axis(const DistributedType& type, int dimension) {
  const std::vector<AxisPart> axes = merge_neighbours(type.dimension(dimension).axes);
  return axes.empty() ? axes : std::vector<AxisPart>{axes.front()};
}

std::vector<AxisPart> scan_axes_or_most_minor(Scanner& scanner, const DistributedType& type, int dimension) {
  const SourceRange place = scanner.last();
  std::vector<AxisPart> axes = scan_axes(scanner, type.mesh());
  if (axes.empty()) axes = most_minor_axis(type, dimension);
  if (axes.empty()) {
    scanner.fail(place, fmt::format("dimension {} of {} is not cut", dimension, to_string(type)));
  }
  return axes;
}

// step ::= 'dynslice' '(' dimension ';' part… ')' | 'allgather' '(' dimension axes ')'
//        | 'alltoall' '(' dimension ',' dimension axes ')'
Collective scan_collective(Scanner& scanner, const DistributedType& type, const std::string& name, SourceRange place) {
  const bool known = name == "dynslice" || name == "alltoall" || name == "allgather";
  if (!known) {
    scanner.fail(place, fmt::format("unknown collective {}", name),
                 "the collectives are dynslice, alltoall, allgather and allpermute");
  }
  scanner.expect("(", "after " + name);
  Collective step = AllPermute{type};
  if (name == "dynslice") {
    const int dimension = scan_dimension_index(scanner, type);
    if (!scanner.looking_at(";")) scanner.fail_here("expected '; axes' in dynslice", "as in dynslice(0; x)");
    step = DynSlice{dimension, scan_axes(scanner, type.mesh())};
  } else if (name == "allgather") {
    const int dimension = scan_dimension_index(scanner, type);
    step = AllGather{dimension, scan_axes_or_most_minor(scanner, type, dimension)};
  } else {
    const int from = scan_dimension_index(scanner, type);
    scanner.expect(",", "between the dimensions of alltoall");
    const int to = scan_dimension_index(scanner, type);
    step = AllToAll{from, to, scan_axes_or_most_minor(scanner, type, from)};
  }
  scanner.expect(")", "at the end of " + name);
  return step;
}

void scan_step(Scanner& scanner, Sequence& sequence) {
  scanner.expect("->", "before a step");
  const DistributedType before = sequence.target();  // a copy: append() moves the types
  const std::size_t begin = scanner.next_position();
  const std::string name = scanner.name("a collective");
  const SourceRange place = scanner.last();
  if (name == "allpermute" && !scanner.looking_at("[")) {
    scanner.fail(place, "allpermute needs the type that it leads to", "as in -> allpermute [32{y,x}512, 128]");
  }
  const Collective step = name == "allpermute" ? AllPermute{scan_type(scanner, before.mesh())}
                                               : scan_collective(scanner, before, name, place);
  const SourceRange whole{begin, scanner.last().end};
  if (const auto fault = find_fault(before, step)) scanner.fail(whole, fault->message, fault->hint);
  sequence.append(step);
  if (!scanner.looking_at("[")) return;

  const std::size_t type_begin = scanner.next_position();
  const DistributedType written = scan_type(scanner, before.mesh());
  if (!(written == sequence.target())) {
    scanner.fail({type_begin, scanner.last().end},
                 fmt::format("this is not the type after {}", to_string(before.mesh(), step)),
                 fmt::format("that type is {}", to_string(sequence.target())));
  }
}

}  // namespace

// sequence ::= 'mesh' mesh type { '->' step [ type ] }
Sequence parse_sequence(const SourceText& source) {
  Scanner scanner(source);
  if (scanner.peek_word() != "mesh") {
    scanner.fail_here("a sequence starts with its mesh", "as in mesh {\"x\": 4, \"y\": 4}");
  }
  scanner.name("mesh");
  if (!scanner.looking_at("{")) scanner.fail_here("expected '{' after mesh", "as in mesh {\"x\": 4, \"y\": 4}");
  const Mesh mesh = scan_mesh(scanner);
  Sequence sequence(scan_type(scanner, mesh));
  while (!scanner.at_end()) scan_step(scanner, sequence);
  return sequence;
}

}  // namespace retile
