// MPI: a C++ function on any boxes, with derived datatypes and plain calls.
//
// A stage of the plan is one copy (plan/memory.h): slices only narrow what the next step reads.
#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "retile/emission/device_form.h"
#include "retile/emission/targets.h"
#include "retile/schedule/stage.h"

namespace retile::emission {
namespace {

struct ElementNames {
  std::string cpp;
  std::string mpi;
};

// What C++ has no numbers for, or vectors no elements, is moved as bits.
ElementNames names_of(ElementType element) {
  const std::int64_t bytes = bytes_of(element);
  const bool is_single = bytes == (is_complex(element) ? 8 : 4);
  const NumberKind kind = kind_of(element);
  if (kind == NumberKind::floating && bytes >= 4) {
    return is_single ? ElementNames{"float", "MPI_FLOAT"} : ElementNames{"double", "MPI_DOUBLE"};
  }
  if (kind == NumberKind::complex) {
    return is_single ? ElementNames{"std::complex<float>", "MPI_C_FLOAT_COMPLEX"}
                     : ElementNames{"std::complex<double>", "MPI_C_DOUBLE_COMPLEX"};
  }
  const bool has_sign = kind == NumberKind::signed_integer;
  return {fmt::format("std::{}int{}_t", has_sign ? "" : "u", 8 * bytes),
          fmt::format("MPI_{}INT{}_T", has_sign ? "" : "U", 8 * bytes)};
}

std::string braced(const Shape& numbers) { return listed("{", numbers, "}"); }
std::string braced(const std::vector<std::string>& texts) { return listed("{", texts, "}"); }
std::string text_of(const Box& box) { return fmt::format("{{{}, {}}}", braced(box.lo), braced(box.hi)); }

// --- The parts of the code that are the same for all plans; '@' stands for a constant of the plan.

constexpr const char* box_code = R"(
// Elements from `lo` up to but not including `hi`.
struct Box {
  int lo[dimensions];
  int hi[dimensions];
};

long long size(const Box& box) {
  long long elements = 1;
  for (int i = 0; i < dimensions; ++i) elements *= box.hi[i] - box.lo[i];
  return elements;
}

// What two boxes share; false where that is nothing.
bool intersect(const Box& a, const Box& b, Box& shared) {
  for (int i = 0; i < dimensions; ++i) {
    shared.lo[i] = std::max(a.lo[i], b.lo[i]);
    shared.hi[i] = std::min(a.hi[i], b.hi[i]);
    if (shared.lo[i] >= shared.hi[i]) return false;
  }
  return true;
}
)";

// Where every rank holds one box.

constexpr const char* tile_code = R"(
// The tile at this corner, as far as it lies in the array.
Box tile(const std::vector<int>& corner, const std::vector<int>& extent) {
  static const int shape[dimensions] = @;
  Box box;
  for (int i = 0; i < dimensions; ++i) {
    box.lo[i] = std::min(corner[i], shape[i]);
    box.hi[i] = std::min(corner[i] + extent[i], shape[i]);
  }
  return box;
}
)";

constexpr const char* tile_type_code = R"(
// What a rank holds, row-major.
using Tiles = Box (*)(int rank);

// The part of a tile that a box is, as MPI sends or receives it.
MPI_Datatype part_of(const Box& tile, const Box& box) {
  int sizes[dimensions], extents[dimensions], starts[dimensions];
  for (int i = 0; i < dimensions; ++i) {
    sizes[i] = tile.hi[i] - tile.lo[i];
    extents[i] = box.hi[i] - box.lo[i];
    starts[i] = box.lo[i] - tile.lo[i];
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(dimensions, sizes, extents, starts, MPI_ORDER_C, element_type, &type);
  MPI_Type_commit(&type);
  return type;
}
)";

// Where some rank holds several.

constexpr const char* parts_code = R"(
// A box that a rank holds, and where it lies in the rank's memory: its first element, and from one to the next.
struct Part {
  Box box;
  long long offset;
  long long strides[dimensions];
};

long long size(const std::vector<Part>& parts) {
  long long elements = 0;
  for (const Part& part : parts) elements += size(part.box);
  return elements;
}
)";

constexpr const char* part_type_code = R"(
// What a rank holds.
using Tiles = std::vector<Part> (*)(int rank);

// The part of what a rank holds that a box is, as MPI sends or receives it.
MPI_Datatype part_of(const std::vector<Part>& parts, const Box& box) {
  Box shared;
  const Part& part = *std::find_if(parts.begin(), parts.end(),
                                   [&](const Part& one) { return intersect(one.box, box, shared); });
  MPI_Aint place = part.offset;
  MPI_Datatype type, row;
  MPI_Type_dup(element_type, &type);
  for (int i = dimensions; i-- > 0;) {
    place += (box.lo[i] - part.box.lo[i]) * part.strides[i];
    row = type;
    MPI_Type_create_hvector(box.hi[i] - box.lo[i], 1, part.strides[i] * MPI_Aint(sizeof(Element)), row, &type);
    MPI_Type_free(&row);
  }
  const int one = 1;
  place *= sizeof(Element);
  row = type;
  MPI_Type_create_hindexed(1, &one, &place, row, &type);
  MPI_Type_free(&row);
  MPI_Type_commit(&type);
  return type;
}
)";

// What steps call.

constexpr const char* group_code = R"(
// Every rank gets its new tile from the ranks of its group. They send of what they have in memory, the tiles of
// `before`, what is left of it after slices, `held`.
void exchange_in_group(const Element* from, Tiles before, Tiles held, Element* to, Tiles after, int group, int position,
                       MPI_Comm comm) {
  int rank, count;
  MPI_Comm members;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_split(comm, group, position, &members);
  MPI_Comm_size(members, &count);
  std::vector<int> ranks(count);
  MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, members);
  std::vector<int> sent(count), received(count), places(count);  // the types say where
  std::vector<MPI_Datatype> sent_types(count, element_type), received_types(count, element_type);
  for (int i = 0; i < count; ++i) {
    Box box;
    if (intersect(held(rank), after(ranks[i]), box)) {
      sent[i] = 1;
      sent_types[i] = part_of(before(rank), box);
    }
    if (intersect(held(ranks[i]), after(rank), box)) {
      received[i] = 1;
      received_types[i] = part_of(after(rank), box);
    }
  }
  MPI_Alltoallw(from, sent.data(), places.data(), sent_types.data(), to, received.data(), places.data(),
                received_types.data(), members);
  for (int i = 0; i < count; ++i) {
    if (sent[i] != 0) MPI_Type_free(&sent_types[i]);
    if (received[i] != 0) MPI_Type_free(&received_types[i]);
  }
  MPI_Comm_free(&members);
}
)";

constexpr const char* permute_code = R"(
// Every rank sends one rank its new tile, and gets its own.
void permute(const Element* from, Tiles before, Element* to, Tiles after, int receiver, int sender, MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  const bool sends = size(after(receiver)) > 0, receives = size(after(rank)) > 0;
  MPI_Datatype sent = sends ? part_of(before(rank), after(receiver)) : element_type;
  MPI_Datatype received = receives ? part_of(after(rank), after(rank)) : element_type;
  MPI_Sendrecv(from, sends ? 1 : 0, sent, receiver, 0, to, receives ? 1 : 0, received, sender, 0, comm,
               MPI_STATUS_IGNORE);
  if (sends) MPI_Type_free(&sent);
  if (receives) MPI_Type_free(&received);
}
)";

constexpr const char* transfers_code = R"(
// A box that one rank sends another, or keeps.
struct Transfer {
  int from;
  int to;
  Box box;
};

// Two ranks see the messages between them in the same order, so these need no tags.
void exchange(const Element* from, Tiles before, Element* to, Tiles after, const std::vector<Transfer>& transfers,
              MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  std::vector<MPI_Request> requests;
  for (const Transfer& transfer : transfers) {
    if (transfer.to == rank) {
      MPI_Datatype type = part_of(after(rank), transfer.box);
      MPI_Irecv(to, 1, type, transfer.from, 0, comm, &requests.emplace_back());
      MPI_Type_free(&type);  // it lives as long as the request does
    }
    if (transfer.from == rank) {
      MPI_Datatype type = part_of(before(rank), transfer.box);
      MPI_Isend(from, 1, type, transfer.to, 0, comm, &requests.emplace_back());
      MPI_Type_free(&type);
    }
  }
  MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}
)";

constexpr const char* combine_code = R"(
// Rows of so many elements combined into one, in order.
void combine(const Element* rows, long long count, long long elements, Element* to) {
  std::copy(rows, rows + elements, to);
  for (long long row = 1; row < count; ++row) {
    for (long long i = 0; i < elements; ++i) to[i] = @;
  }
}
)";

// The check.

constexpr const char* place_code = R"(
// --- A check: every element is told by its place in the array.

Element number(long long place) { return Element(@); }

// The place in the array as it starts out, row-major, of an element of a box, row-major too.
long long place_of(const Box& box, long long element) {
  static const int shape[dimensions] = @;@
  long long place = 0, step = 1;
  for (int i = dimensions; i-- > 0; step *= shape[i]) {
    const int extent = box.hi[i] - box.lo[i];
    place += (box.lo[i] + element % extent)@ * step;
    element /= extent;
  }
  return place;
}
)";

constexpr const char* tile_visit_code = R"(
template <typename Visit>
void for_each_element(const Box& tile, Element* memory, Visit visit) {
  for (long long i = 0; i < size(tile); ++i) visit(memory[i], place_of(tile, i));
}
)";

constexpr const char* part_visit_code = R"(
template <typename Visit>
void for_each_element(const std::vector<Part>& parts, Element* memory, Visit visit) {
  for (const Part& part : parts) {
    for (long long i = 0; i < size(part.box); ++i) {
      long long at = part.offset, rest = i;
      for (int d = dimensions; d-- > 0; rest /= part.box.hi[d] - part.box.lo[d]) {
        at += rest % (part.box.hi[d] - part.box.lo[d]) * part.strides[d];
      }
      visit(memory[at], place_of(part.box, i));
    }
  }
}
)";

constexpr const char* main_code = R"(
int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != rank_count) {
    if (rank == 0) std::fprintf(stderr, "start %d ranks, not %d\n", rank_count, ranks);
    MPI_Finalize();
    return 2;
  }
  std::vector<Element> source(size(tiles_0(rank))), target(size(@(rank)));
  for_each_element(tiles_0(rank), source.data(), [](Element& element, long long place) { element = number(place); });
  redistribute(source.data(), target.data(), MPI_COMM_WORLD);
  long long wrong = 0, all = 0;
  for_each_element(@(rank), target.data(), [&](const Element& element, long long place) {
    @
    if (element != expected) ++wrong;
  });
  MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf(all == 0 ? "verified on %d ranks\n" : "wrong on %d ranks\n", ranks);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
)";

// Each '@' becomes the next of the texts.
std::string filled(std::string_view code, const std::vector<std::string>& texts) {
  std::string result;
  std::size_t next = 0;
  for (const char c : code) {
    if (c == '@') {
      result += texts[next++];
    } else {
      result += c;
    }
  }
  return result;
}

class MpiPrinter {
 public:
  // Dimensions that a sum takes away stay, of one element: so all boxes have equally many.
  MpiPrinter(const Plan& plan, ElementType element)
      : plan_(plan), element_(element), shape_(plan.movement.source.global_shape()) {
    for (const Step& step : plan.steps()) {
      if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) reduce_ = reduce;
    }
    if (shape_.empty()) shape_ = {1};
    is_single_ = plan.movement.source.has_single_boxes() &&
                 std::all_of(plan.steps().begin(), plan.steps().end(),
                             [](const Step& step) { return step.after.has_single_boxes(); });
    for (const std::int64_t size : shape_) {
      if (size > INT_MAX) refuse(Target::mpi, "dimensions of more than 2^31 - 1 elements", "MPI counts them as int");
    }
    if (reduce_ != nullptr && is_half(element)) {
      refuse(Target::mpi, "sums of 16-bit numbers", "C++ has no type for them; --as jax and --as stablehlo add them");
    }
  }

  std::string print() {
    const std::string body = statements();
    const ElementNames names = names_of(element_);
    std::string text = fmt::format("// {}\n//\n{}//\n", summary_of(plan_, element_), plan_text(plan_, "//   "));
    text += fmt::format("// mpicxx -std=c++17 -O2 redistribute.cpp -o redistribute && mpirun -np {} ./redistribute\n",
                        plan_.device_count());
    text += "#include <mpi.h>\n\n#include <algorithm>\n";
    if (names.cpp.starts_with("std::complex")) text += "#include <complex>\n";
    if (names.cpp.ends_with("_t")) text += "#include <cstdint>\n";
    text += fmt::format(
        "#include <cstdio>\n#include <vector>\n\nusing Element = {};\nconst MPI_Datatype element_type = "
        "{};\nconstexpr int rank_count = {};\nconstexpr int dimensions = {};\n",
        names.cpp, names.mpi, plan_.device_count(), shape_.size());
    text += box_code;
    if (uses_tile_) text += filled(tile_code, {braced(shape_)});
    if (!is_single_) text += parts_code;
    text += "\n// --- Who holds what, before and after each step.\n" + placements_;
    text += "\n// --- How it is moved.\n";
    if (uses_groups_ || uses_permutations_ || uses_transfers_) text += is_single_ ? tile_type_code : part_type_code;
    if (uses_groups_) text += group_code;
    if (uses_permutations_) text += permute_code;
    if (uses_transfers_) text += transfers_code;
    if (reduce_ != nullptr) text += filled(combine_code, {combined("to[i]", "rows[row * elements + i]")});
    text += fmt::format(
        "\n// Both are tiles of the calling rank; of {} elements at most on the way.\nvoid redistribute("
        "const Element* source, Element* target, MPI_Comm comm) {{\n{}}}\n",
        plan_.memory.peak, body);
    return text + check();
  }

 private:
  const Mesh& mesh() const { return plan_.mesh(); }
  Device devices() const { return plan_.device_count(); }

  std::string combined(const std::string& a, const std::string& b) const {
    if (reduce_->reduction == Reduction::sum) return fmt::format("{} + {}", a, b);
    return fmt::format("std::{}({}, {})", name_of(reduce_->reduction), a, b);
  }

  // --- Placements, each a function of the rank.

  // With the dimensions that a sum took away.
  Shape padded(const Shape& given, std::int64_t fill, int rank) const {
    Shape result = given;
    if (reduce_ != nullptr && rank < static_cast<int>(shape_.size())) {
      for (const int dimension : reduce_->dimensions) result.insert(result.begin() + dimension, fill);
    }
    if (result.empty()) result = {fill};
    return result;
  }

  Part padded(const Part& part) const {
    const int rank = static_cast<int>(part.strides.size());
    return {{padded(part.box.lo, 0, rank), padded(part.box.hi, 1, rank)}, part.offset, padded(part.strides, 0, rank)};
  }

  // The name of the function that says what ranks hold; made where it is new.
  std::string tiles_of(const Placement& placement, const std::string& words) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].rank() == placement.rank() && known_[i] == placement) return fmt::format("tiles_{}", i);
    }
    std::string name = fmt::format("tiles_{}", known_.size());
    known_.push_back(placement);
    placements_ += fmt::format("\n// {}\n{} {}(int rank) {{\n{}}}\n", words, is_single_ ? "Box" : "std::vector<Part>",
                               name, is_single_ ? body_of_tiles(placement) : body_of_parts(placement));
    return name;
  }

  std::string body_of_tiles(const Placement& placement) {
    if (auto formula = formula_of(placement)) return std::move(*formula);
    std::vector<std::string> boxes;
    for (Device device = 0; device < devices(); ++device) {
      const Box box = placement.box(device);
      const int rank = placement.rank();
      boxes.push_back(text_of({padded(box.lo, 0, rank), padded(box.hi, volume(box) > 0 ? 1 : 0, rank)}));
    }
    return fmt::format("  static const Box boxes[rank_count] = {{\n{}}};\n  return boxes[rank];\n",
                       wrapped(boxes, "      "));
  }

  // The corners by arithmetic; nothing where there is none.
  std::optional<std::string> formula_of(const Placement& placement) {
    if (placement.is_listed()) return std::nullopt;
    const int rank = placement.rank();
    std::vector<Shape> corners;
    for (Device device = 0; device < devices(); ++device) {
      const Shape corner = rank == 0 ? Shape{} : placement.offset(device);
      corners.push_back(padded(corner, 0, rank));
      // Tiles are clipped where the array ends, and must then be what they are.
      const Box box = placement.box(device);
      for (std::size_t i = 0; i < corner.size(); ++i) {
        const std::int64_t end = placement.global_shape()[i];
        if (box.lo[i] != std::min(corner[i], end) && volume(box) > 0) return std::nullopt;
        if (box.hi[i] != std::min(corner[i] + placement.tile_shape()[i], end) && volume(box) > 0) return std::nullopt;
      }
    }
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < shape_.size(); ++i) {
      std::vector<std::int64_t> numbers;
      for (const Shape& corner : corners) numbers.push_back(corner[i]);
      const auto form = find_form(mesh(), numbers);
      if (!form) return std::nullopt;
      texts.push_back(expression(*form));
    }
    uses_tile_ = true;
    return fmt::format("  return tile({}, {});\n", braced(texts), braced(padded(placement.tile_shape(), 1, rank)));
  }

  std::string expression(const DeviceForm& form) const {
    return to_string(form, [&](const DigitTerm& term) { return digit_text(term, devices(), "rank", "/"); });
  }

  std::string body_of_parts(const Placement& placement) const {
    std::string cases;
    for (Device device = 0; device < devices(); ++device) {
      std::vector<std::string> parts;
      for (const Part& given : placement.parts(device)) {
        const Part part = padded(given);
        parts.push_back(fmt::format("{{{}, {}, {}}}", text_of(part.box), part.offset, braced(part.strides)));
      }
      if (parts.empty()) continue;
      cases += fmt::format("    case {}:\n      return {{\n{}}};\n", device, wrapped(parts, "          "));
    }
    return fmt::format("  switch (rank) {{\n{}  }}\n  return {{}};\n", cases);
  }

  // --- Numbers by rank: an expression, or a table.

  std::string number(const std::vector<std::int64_t>& numbers, const char* table, std::string& tables) const {
    if (const auto form = find_form(mesh(), numbers)) return expression(*form);
    std::vector<std::string> entries;
    for (const std::int64_t one : numbers) entries.push_back(fmt::format("{}", one));
    tables += fmt::format("  static const int {}[rank_count] = {{\n{}}};\n", table, wrapped(entries, "      "));
    return fmt::format("{}[rank]", table);
  }

  // --- Stages.

  std::string statements() {
    const Movement& movement = plan_.movement;
    tiles_of(movement.source, fmt::format("{}, the source", to_string(plan_.source)));
    const std::vector<StageSteps> stages = stage_steps(movement.steps);
    const std::vector<Stage> schedule = make_schedule(movement);
    std::string text = "  int rank;\n  MPI_Comm_rank(comm, &rank);\n";
    if (stages.empty()) text += "  std::copy(source, source + size(tiles_0(rank)), target);  // nothing to move\n";
    if (stages.size() > 1) text += "  std::vector<Element> now, next;\n";
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const bool is_last = i + 1 == stages.size();
      for (std::size_t step = stages[i].first; step <= stages[i].last; ++step) {
        text += fmt::format("  // {}\n", step_text(plan_, step));
      }
      if (groups_of(movement.steps[stages[i].last].operation) != nullptr) name_before(stages[i].last);
      const std::string after = name_after(stages[i].last);
      if (!is_last) text += fmt::format("  next.resize(size({}(rank)));\n", after);
      text += stage_call(stages[i], schedule[i], i == 0 ? "source" : "now.data()", is_last ? "target" : "next.data()");
      if (!is_last) text += "  now.swap(next);\n";
    }
    return text;
  }

  std::string name_before(std::size_t step) { return step == 0 ? "tiles_0" : name_after(step - 1); }

  std::string name_after(std::size_t step) {
    const Placement& after = plan_.steps()[step].after;
    const bool is_last = step + 1 == plan_.steps().size();
    return tiles_of(after, is_last ? fmt::format("{}, the target", to_string(plan_.target)) : to_string(mesh(), after));
  }

  std::string stage_call(const StageSteps& steps, const Stage& stage, const std::string& from, const std::string& to) {
    const StepOperation& operation = plan_.steps()[steps.last].operation;
    const std::string before = name_before(steps.first);
    const std::string after = name_after(steps.last);
    std::string tables;
    std::string call;
    if (const Groups* groups = groups_of(operation); groups != nullptr && is_single_) {
      const std::string held = name_before(steps.last);
      std::vector<std::int64_t> group_numbers(static_cast<std::size_t>(devices()));
      std::vector<std::int64_t> positions = group_numbers;
      for (std::size_t group = 0; group < groups->size(); ++group) {
        for (std::size_t position = 0; position < (*groups)[group].size(); ++position) {
          const auto member = static_cast<std::size_t>((*groups)[group][position]);
          group_numbers[member] = static_cast<std::int64_t>(group);
          positions[member] = static_cast<std::int64_t>(position);
        }
      }
      uses_groups_ = true;
      const std::string group = number(group_numbers, "groups", tables);
      const std::string position = number(positions, "positions", tables);
      call = fmt::format("exchange_in_group({}, {}, {}, {}, {}, {}, {}, comm);", from, before, held, to, after, group,
                         position);
    } else if (std::holds_alternative<ReduceStep>(operation)) {
      call = fmt::format("combine({}, size({}(rank)) / std::max(1LL, size({}(rank))), size({}(rank)), {});", from,
                         before, after, after, to);
    } else if (const auto senders = senders_of(operation)) {
      std::vector<std::int64_t> receivers(senders->size());
      for (std::size_t i = 0; i < senders->size(); ++i) {
        receivers[static_cast<std::size_t>((*senders)[i])] = static_cast<std::int64_t>(i);
      }
      uses_permutations_ = true;
      const std::string receiver = number(receivers, "receivers", tables);
      const std::string sender = number(*senders, "senders", tables);
      call = fmt::format("permute({}, {}, {}, {}, {}, {}, comm);", from, before, to, after, receiver, sender);
    } else {
      uses_transfers_ = true;
      tables = transfers_table(stage);
      call = fmt::format("exchange({}, {}, {}, {}, transfers, comm);", from, before, to, after);
    }
    if (tables.empty()) return fmt::format("  {}\n", call);
    std::string block;  // the tables' names are the stage's own
    for (std::size_t at = 0; at < tables.size();) {
      const std::size_t end = tables.find('\n', at);
      block += fmt::format("  {}\n", tables.substr(at, end - at));
      at = end + 1;
    }
    return fmt::format("  {{\n{}    {}\n  }}\n", block, call);
  }

  // Of a permutation, and of slices, where everybody keeps his own.
  std::optional<std::vector<std::int64_t>> senders_of(const StepOperation& operation) const {
    if (!is_single_) return std::nullopt;
    std::vector<std::int64_t> senders(static_cast<std::size_t>(devices()));
    std::iota(senders.begin(), senders.end(), std::int64_t{0});
    if (std::holds_alternative<SliceStep>(operation)) return senders;
    const auto* permute = std::get_if<PermuteStep>(&operation);
    if (permute == nullptr) return std::nullopt;
    for (const DevicePair& pair : *permute->pairs) senders[static_cast<std::size_t>(pair.target)] = pair.source;
    return senders;
  }

  std::string transfers_table(const Stage& stage) const {
    std::vector<std::string> entries;
    for (Device device = 0; device < devices(); ++device) {
      stage.visit_received(device, [&](const Piece& piece) {
        if (volume(piece.box) == 0) return;
        const int rank = static_cast<int>(piece.box.lo.size());
        entries.push_back(fmt::format("{{{}, {}, {}}}", piece.from, piece.to,
                                      text_of({padded(piece.box.lo, 0, rank), padded(piece.box.hi, 1, rank)})));
      });
    }
    return fmt::format("  static const std::vector<Transfer> transfers = {{\n{}}};\n", wrapped(entries, "      "));
  }

  // --- The check.

  std::string check() {
    const std::string target = plan_.steps().empty() ? "tiles_0" : name_after(plan_.steps().size() - 1);
    std::string expected = "const Element expected = number(place);";
    if (reduce_ != nullptr) {
      std::vector<std::int64_t> places = part_places();
      expected = fmt::format(
          "static const long long parts[] = {};\n    Element expected = number(place);\n"
          "    for (std::size_t i = 1; i < {}; ++i) expected = {};",
          braced(places), places.size(), combined("expected", "number(place + parts[i])"));
    }
    const std::string value = reduce_ != nullptr ? "place % 7" : "place";
    const Shape period = periods();
    const bool has_periods = period != shape_;
    const std::string declared = fmt::format(
        "\n  static const int period[dimensions] = {};  // elements so far apart are equal", braced(period));
    return filled(place_code, {value, braced(shape_), has_periods ? declared : "", has_periods ? " % period[i]" : ""}) +
           (is_single_ ? tile_visit_code : part_visit_code) + filled(main_code, {target, target, expected});
  }

  // By dimension of the array as it starts out: where a halo wraps, that goes on beyond the ends of the problem's.
  Shape periods() const {
    Shape period = shape_;
    const std::vector<Halo> margins = moved_array(plan_.target).margins;
    std::size_t first = 0;  // of the dimension's factors
    for (std::size_t i = 0; i < margins.size(); ++i) {
      if (margins[i].wraps) period[first] = plan_.source.global_shape()[i];
      first += plan_.view.empty() ? 1 : plan_.view[i].size();
    }
    return period;
  }

  // How far the parts of an element lie behind the first one, in the array as it starts out.
  Shape part_places() const {
    Shape places{0};
    std::int64_t step = 1;
    for (std::size_t i = shape_.size(); i-- > 0; step *= shape_[i]) {
      const std::vector<int>& gone = reduce_->dimensions;
      if (std::find(gone.begin(), gone.end(), static_cast<int>(i)) == gone.end()) continue;
      Shape more;
      for (std::int64_t part = 0; part < shape_[i]; ++part) {
        for (const std::int64_t place : places) more.push_back(place + part * step);
      }
      places = std::move(more);
    }
    std::sort(places.begin(), places.end());
    return places;
  }

  const Plan& plan_;
  const ElementType element_;
  Shape shape_;  // of the array as it starts out
  const ReduceStep* reduce_ = nullptr;
  std::vector<Placement> known_;
  std::string placements_;
  bool is_single_ = true;  // every rank holds one box at any time
  bool uses_tile_ = false;
  bool uses_groups_ = false;
  bool uses_permutations_ = false;
  bool uses_transfers_ = false;
};

}  // namespace

std::string emit_mpi(const Plan& plan, ElementType element) { return MpiPrinter(plan, element).print(); }

}  // namespace retile::emission
