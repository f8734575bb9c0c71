// MPI: a C++ function on any boxes, with derived datatypes and plain calls.
//
// A stage of the plan is one copy (plan/memory.h): slices only narrow what the next step reads.
#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "retile/emission/device_form.h"
#include "retile/emission/targets.h"
#include "retile/engines/schedule.h"

namespace retile::emission {
namespace {

struct ElementNames {
  const char* cpp;
  const char* mpi;
};

// What is only moved need not be a number of C++.
ElementNames names_of(ElementType element) {
  switch (element) {
    case ElementType::i8:
      return {"std::int8_t", "MPI_INT8_T"};
    case ElementType::f16:
    case ElementType::bf16:
      return {"std::uint16_t", "MPI_UINT16_T"};
    case ElementType::i32:
      return {"std::int32_t", "MPI_INT32_T"};
    case ElementType::f32:
      return {"float", "MPI_FLOAT"};
    case ElementType::f64:
      return {"double", "MPI_DOUBLE"};
    case ElementType::c64:
      return {"std::complex<float>", "MPI_C_FLOAT_COMPLEX"};
    case ElementType::c128:
      return {"std::complex<double>", "MPI_C_DOUBLE_COMPLEX"};
  }
  return {};
}

std::string braced(const Shape& numbers) { return listed("{", numbers, "}"); }
std::string braced(const std::vector<std::string>& texts) { return listed("{", texts, "}"); }
std::string text_of(const Box& box) { return fmt::format("{{{}, {}}}", braced(box.lo), braced(box.hi)); }

// --- The parts of the code that are the same for all plans; '@' stands for a constant of the plan.

constexpr const char* types_code = R"(
// Elements from `lo` up to but not including `hi`.
struct Box {
  int lo[dimensions];
  int hi[dimensions];
};

// A box that a rank holds, and where it lies in the rank's memory: its first element, and from one to the next.
struct Part {
  Box box;
  long long offset;
  long long strides[dimensions];
};

// What a rank holds.
using Parts = std::vector<Part> (*)(int rank);

long long volume(const Box& box) {
  long long elements = 1;
  for (int i = 0; i < dimensions; ++i) elements *= box.hi[i] - box.lo[i];
  return elements;
}

long long size(const std::vector<Part>& parts) {
  long long elements = 0;
  for (const Part& part : parts) elements += volume(part.box);
  return elements;
}

// What two boxes share; nothing where that has no volume.
bool intersect(const Box& a, const Box& b, Box& shared) {
  for (int i = 0; i < dimensions; ++i) {
    shared.lo[i] = std::max(a.lo[i], b.lo[i]);
    shared.hi[i] = std::min(a.hi[i], b.hi[i]);
    if (shared.lo[i] >= shared.hi[i]) return false;
  }
  return true;
}

// A box that is all of a rank's memory, row-major.
std::vector<Part> packed(const Box& box) {
  Part part{box, 0, {}};
  long long stride = 1;
  for (int i = dimensions; i-- > 0;) {
    part.strides[i] = stride;
    stride *= box.hi[i] - box.lo[i];
  }
  if (stride == 0) return {};
  return {part};
}
)";

constexpr const char* tile_code = R"(
// The tile at this corner, as far as it lies in the array.
std::vector<Part> tile(const std::vector<int>& corner, const std::vector<int>& extent) {
  static const int shape[dimensions] = @;
  Box box;
  for (int i = 0; i < dimensions; ++i) {
    box.lo[i] = std::min(corner[i], shape[i]);
    box.hi[i] = std::min(corner[i] + extent[i], shape[i]);
  }
  return packed(box);
}
)";

constexpr const char* message_code = R"(
// A box inside what a rank holds, as MPI sends or receives it.
struct Message {
  long long first = 0;  // element
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

Message message(const std::vector<Part>& parts, const Box& box) {
  for (const Part& part : parts) {
    Box shared;
    if (!intersect(part.box, box, shared)) continue;
    Message result{part.offset, element_type};
    MPI_Type_dup(element_type, &result.type);
    for (int i = dimensions; i-- > 0;) {
      result.first += (box.lo[i] - part.box.lo[i]) * part.strides[i];
      const MPI_Aint stride = part.strides[i] * MPI_Aint(sizeof(Element));
      MPI_Datatype row = result.type;
      MPI_Type_create_hvector(box.hi[i] - box.lo[i], 1, stride, row, &result.type);
      MPI_Type_free(&row);
    }
    MPI_Type_commit(&result.type);
    return result;
  }
  return {};
}
)";

constexpr const char* group_code = R"(
// Every rank of a group gets its new tile from what the members hold: `held` of the tiles that lie in memory, which are
// those of `before`.
void exchange_in_group(const Element* from, Parts before, Parts held, Element* to, Parts after, int group, int position,
                       MPI_Comm comm) {
  int rank, count;
  MPI_Comm members;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_split(comm, group, position, &members);
  MPI_Comm_size(members, &count);
  std::vector<int> ranks(count);
  MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, members);
  std::vector<int> send_counts(count), receive_counts(count), sends(count), receives(count);  // places in bytes
  std::vector<MPI_Datatype> send_types(count, element_type), receive_types(count, element_type);
  // Places count bytes in an int, so they are part of the types.
  const auto add = [&](const std::vector<Part>& memory, int sender, int receiver, int& number, MPI_Datatype& type) {
    const std::vector<Part> has = held(sender), wants = after(receiver);
    Box box;
    if (has.empty() || wants.empty() || !intersect(has[0].box, wants[0].box, box)) return;
    Message piece = message(memory, box);
    const int one = 1;
    const MPI_Aint place = piece.first * MPI_Aint(sizeof(Element));
    MPI_Type_create_hindexed(1, &one, &place, piece.type, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&piece.type);
    number = 1;
  };
  for (int i = 0; i < count; ++i) {
    add(before(rank), rank, ranks[i], send_counts[i], send_types[i]);
    add(after(rank), ranks[i], rank, receive_counts[i], receive_types[i]);
  }
  MPI_Alltoallw(from, send_counts.data(), sends.data(), send_types.data(), to, receive_counts.data(), receives.data(),
                receive_types.data(), members);
  for (int i = 0; i < count; ++i) {
    if (send_counts[i] != 0) MPI_Type_free(&send_types[i]);
    if (receive_counts[i] != 0) MPI_Type_free(&receive_types[i]);
  }
  MPI_Comm_free(&members);
}
)";

constexpr const char* permute_code = R"(
// Every rank sends its tile, or the part of it that the receiver wants, and gets one.
void permute(const Element* from, Parts before, Element* to, Parts after, int receiver, int sender, MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  const std::vector<Part> sent = after(receiver), received = after(rank);
  Message out = sent.empty() ? Message() : message(before(rank), sent[0].box);
  Message in = received.empty() ? Message() : message(received, received[0].box);
  const bool sends = out.type != MPI_DATATYPE_NULL, receives = in.type != MPI_DATATYPE_NULL;
  MPI_Sendrecv(from + out.first, sends ? 1 : 0, sends ? out.type : element_type, receiver, 0, to + in.first,
               receives ? 1 : 0, receives ? in.type : element_type, sender, 0, comm, MPI_STATUS_IGNORE);
  if (sends) MPI_Type_free(&out.type);
  if (receives) MPI_Type_free(&in.type);
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
void exchange(const Element* from, Parts before, Element* to, Parts after, const std::vector<Transfer>& transfers,
              MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  const std::vector<Part> has = before(rank), wants = after(rank);
  std::vector<MPI_Request> requests;
  for (const Transfer& transfer : transfers) {
    if (transfer.to == rank) {
      Message in = message(wants, transfer.box);
      MPI_Irecv(to + in.first, 1, in.type, transfer.from, 0, comm, &requests.emplace_back());
      MPI_Type_free(&in.type);  // it lives as long as the request does
    }
    if (transfer.from == rank) {
      Message out = message(has, transfer.box);
      MPI_Isend(from + out.first, 1, out.type, transfer.to, 0, comm, &requests.emplace_back());
      MPI_Type_free(&out.type);
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

constexpr const char* main_code = R"(
// --- A check: every element is told by its place in the array.

Element number(long long place) { return Element(@); }

// Calls visit(element, place) for what a rank holds; places are row-major in the array as it starts out.
template <typename Visit>
void for_each_element(const std::vector<Part>& parts, Element* memory, Visit visit) {
  static const int shape[dimensions] = @;
  for (const Part& part : parts) {
    for (long long i = 0; i < volume(part.box); ++i) {
      long long rest = i, place = 0, at = part.offset, step = 1;
      for (int d = dimensions; d-- > 0; rest /= part.box.hi[d] - part.box.lo[d], step *= shape[d]) {
        const long long index = rest % (part.box.hi[d] - part.box.lo[d]);
        at += index * part.strides[d];
        place += (part.box.lo[d] + index) * step;
      }
      visit(memory[at], place);
    }
  }
}

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
  MpiPrinter(const Plan& plan, ElementType element) : plan_(plan), element_(element) {
    // Dimensions that a sum takes away stay, of one element: so all boxes have equally many.
    shape_ = plan.movement.source.global_shape();
    for (const Step& step : plan.steps()) {
      if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) reduce_ = reduce;
    }
    if (shape_.empty()) shape_ = {1};
    for (const std::int64_t size : shape_) {
      if (size > INT_MAX) refuse(Target::mpi, "dimensions of more than 2^31 - 1 elements", "MPI counts them as int");
    }
    const bool is_half = element == ElementType::f16 || element == ElementType::bf16;
    if (reduce_ != nullptr && is_half) {
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
    const std::string type = names.cpp;
    if (type.starts_with("std::complex")) text += "#include <complex>\n";
    if (type.ends_with("_t")) text += "#include <cstdint>\n";
    text += fmt::format(
        "#include <cstdio>\n#include <vector>\n\nusing Element = {};\nconst MPI_Datatype element_type = "
        "{};\nconstexpr int rank_count = {};\nconstexpr int dimensions = {};\n",
        names.cpp, names.mpi, plan_.device_count(), shape_.size());
    text += types_code;
    if (uses_tiles_) text += filled(tile_code, {braced(shape_)});
    text += "\n// --- Who holds what, before and after each step.\n" + placements_;
    text += "\n// --- How it is moved.\n";
    if (uses_groups_ || uses_permutations_ || uses_transfers_) text += message_code;
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
    const std::string name = fmt::format("tiles_{}", known_.size());
    known_.push_back(placement);
    placements_ += fmt::format("\n// {}\nstd::vector<Part> {}(int rank) {{\n{}}}\n", words, name, body_of(placement));
    return name;
  }

  std::string body_of(const Placement& placement) {
    if (auto formula = formula_of(placement)) return std::move(*formula);
    if (!placement.has_single_boxes()) return listed_parts(placement);
    std::vector<std::string> boxes;
    for (Device device = 0; device < devices(); ++device) {
      const Box box = placement.box(device);
      const int rank = placement.rank();
      boxes.push_back(text_of({padded(box.lo, 0, rank), padded(box.hi, volume(box) > 0 ? 1 : 0, rank)}));
    }
    return fmt::format("  static const Box boxes[rank_count] = {{\n{}}};\n  return packed(boxes[rank]);\n",
                       wrapped(boxes, "      "));
  }

  // The corners by arithmetic; nothing where there is none.
  std::optional<std::string> formula_of(const Placement& placement) {
    if (placement.listed()) return std::nullopt;
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
    uses_tiles_ = true;
    return fmt::format("  return tile({}, {});\n", braced(texts), braced(padded(placement.tile_shape(), 1, rank)));
  }

  std::string expression(const DeviceForm& form) const {
    return to_string(form, [&](const DigitTerm& term) { return digit_text(term, devices(), "rank", "/"); });
  }

  std::string listed_parts(const Placement& placement) const {
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
    if (const Groups* groups = groups_of(operation)) {
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
    } else if (const auto senders = senders_of(steps)) {
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

  // Of a permutation, and of slices, where everybody keeps his own; nothing where tiles are several boxes.
  std::optional<std::vector<std::int64_t>> senders_of(const StageSteps& steps) const {
    const Step& step = plan_.steps()[steps.last];
    if (!plan_.movement.before(steps.first).has_single_boxes() || !step.after.has_single_boxes()) return std::nullopt;
    std::vector<std::int64_t> senders(static_cast<std::size_t>(devices()));
    std::iota(senders.begin(), senders.end(), std::int64_t{0});
    if (std::holds_alternative<SliceStep>(step.operation)) return senders;
    const auto* permute = std::get_if<PermuteStep>(&step.operation);
    if (permute == nullptr) return std::nullopt;
    for (const DevicePair& pair : *permute->pairs) senders[static_cast<std::size_t>(pair.target)] = pair.source;
    return senders;
  }

  std::string transfers_table(const Stage& stage) const {
    std::vector<std::string> entries;
    PieceCursor cursor(stage);
    while (cursor.device() < devices()) {
      cursor.next([&](const Transfer& piece) {
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
    return filled(main_code, {value, braced(shape_), target, target, expected});
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
  bool uses_tiles_ = false;
  bool uses_groups_ = false;
  bool uses_permutations_ = false;
  bool uses_transfers_ = false;
};

}  // namespace

std::string emit_mpi(const Plan& plan, ElementType element) { return MpiPrinter(plan, element).print(); }

}  // namespace retile::emission
