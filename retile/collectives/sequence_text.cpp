// The parser of sequence files.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "retile/collectives/notation.h"
#include "retile/collectives/sequence.h"
#include "retile/types/scanning.h"
#include "retile/types/text.h"

namespace retile {
namespace {

constexpr const char* typed_plans = "plans of --planner paper have the paper's collectives alone";

// The axes of a dimension that a step acts on without naming them: the most minor one, or as many as make up a factor.
std::vector<AxisPart> most_minor_axes(const DistributedType& type, int dimension, std::int64_t factor) {
  if (factor == 0) {
    std::vector<AxisPart> axes = merge_neighbours(type.dimension(dimension).axes);
    axes.resize(std::min<std::size_t>(1, axes.size()));
    return axes;
  }
  std::vector<AxisPart> axes;
  std::int64_t product = 1;
  for (const AxisPart& part : split_into_primes(type.mesh(), type.dimension(dimension).axes)) {
    if (product >= factor) break;
    axes.push_back(part);
    product *= part.size;
  }
  return product == factor ? axes : std::vector<AxisPart>{};
}

// Reads one step of a sequence.
class StepReader {
 public:
  StepReader(Scanner& scanner, Sequence& sequence) : scanner_(scanner), sequence_(sequence), mesh_(sequence.mesh()) {}

  void read() {
    if (scanner_.peek_word() == "mesh") scanner_.fail_here("another sequence starts here", "a file holds one");
    scanner_.expect("->", "before a step");
    step_.begin = scanner_.next_position();
    name_ = scanner_.name("a collective");
    step_.end = scanner_.last().end;
    check_name();
    if (name_ == "allpermute") return read_permutation();
    std::vector<StepChange> changes = scan_changes(scanner_, name_, mesh_);
    step_.end = scanner_.last().end;
    const std::optional<DistributedType> after = read_type();
    for (StepChange& change : changes) apply(change, after);
    if (after && !(*after == sequence_.target())) {
      scanner_.fail(type_, fmt::format("this is not the type after {}", step_text(name_, changes, mesh_)),
                    fmt::format("that type is {}", to_string(sequence_.target())));
    }
  }

 private:
  void check_name() {
    if (name_ == "exchange") scanner_.fail(step_, "an exchange is none of the paper's collectives", typed_plans);
    const bool known = name_ == "dynslice" || name_ == "alltoall" || name_ == "allgather" || name_ == "allpermute";
    if (known) return;
    scanner_.fail(step_, fmt::format("unknown collective {}", name_),
                  "the collectives are dynslice, alltoall, allgather and allpermute");
  }

  void read_permutation() {
    const std::optional<DistributedType> after = read_type();
    if (!after) {
      scanner_.fail(step_, "allpermute needs the type that it leads to", "as in -> allpermute [32{y,x}512, 128]");
    }
    step_.end = type_.end;
    append(AllPermute{*after});
  }

  std::optional<DistributedType> read_type() {
    if (scanner_.peek_word() == "local") scanner_.fail_here("no type says who holds these tiles", typed_plans);
    if (!scanner_.looking_at("[")) return std::nullopt;
    type_.begin = scanner_.next_position();
    DistributedType type = scan_type(scanner_, mesh_);
    type_.end = scanner_.last().end;
    return type;
  }

  void append(const Collective& step) {
    if (const auto fault = find_fault(sequence_.target(), step)) scanner_.fail(step_, *fault);
    sequence_.append(step);
  }

  // Appends the change as a step of its own, and sets its axes.
  void apply(StepChange& change, const std::optional<DistributedType>& after) {
    check_dimension(change.from, change.from_place);
    check_dimension(change.to, change.to_place);
    if (change.axes.empty()) change.axes = name_ == "dynslice" ? sliced_axes(change, after) : held_axes(change);
    if (name_ == "dynslice") append(DynSlice{change.from, change.axes});
    if (name_ == "allgather") append(AllGather{change.from, change.axes});
    if (name_ == "alltoall") append(AllToAll{change.from, change.to, change.axes});
  }

  void check_dimension(int dimension, SourceRange place) const {
    const DistributedType& type = sequence_.target();
    if (dimension < type.rank()) return;
    scanner_.fail(place, fmt::format("there is no dimension {}", dimension),
                  fmt::format("{} has rank {}; dimensions count from 0", to_string(type), type.rank()));
  }

  std::vector<AxisPart> held_axes(const StepChange& change) const {
    const DistributedType& type = sequence_.target();
    std::vector<AxisPart> axes = most_minor_axes(type, change.from, change.factor);
    if (!axes.empty()) return axes;
    const std::string dimension = fmt::format("dimension {} of {}", change.from, to_string(type));
    if (type.dimension(change.from).axes.empty()) scanner_.fail(change.from_place, dimension + " is not cut");
    scanner_.fail(change.from_place, fmt::format("no minor axes of {} make up {}", dimension, change.factor));
  }

  // The factor says how many; the type after the step, which.
  std::vector<AxisPart> sliced_axes(const StepChange& change, const std::optional<DistributedType>& after) const {
    if (!after || after->rank() <= change.from) {
      scanner_.fail(step_, "a dynslice by a factor needs the type that it leads to",
                    "or name its axes, as in dynslice(0; x)");
    }
    std::vector<AxisPart> axes = most_minor_axes(*after, change.from, change.factor);
    if (axes.empty()) {
      scanner_.fail(type_, fmt::format("dimension {} is not cut into {} here", change.from, change.factor));
    }
    return axes;
  }

  Scanner& scanner_;
  Sequence& sequence_;
  const Mesh mesh_;  // a copy: append() moves the types
  std::string name_;
  SourceRange step_{};
  SourceRange type_{};
};

}  // namespace

// sequence ::= 'mesh' mesh type { '->' step [ type ] }
Sequence parse_sequence(const SourceText& source) {
  Scanner scanner(source);
  if (scanner.peek_word() != "mesh") {
    scanner.fail_here("a sequence starts with its mesh", scanner.looking_at("{")
                                                             ? "a plan is read as text: retile plan without --json"
                                                             : "as in mesh {\"x\": 4, \"y\": 4}");
  }
  scanner.name("mesh");
  if (!scanner.looking_at("{")) scanner.fail_here("expected '{' after mesh", "as in mesh {\"x\": 4, \"y\": 4}");
  const Mesh mesh = scan_mesh(scanner);
  Sequence sequence(scan_type(scanner, mesh));
  while (!scanner.at_end()) StepReader(scanner, sequence).read();
  return sequence;
}

}  // namespace retile
