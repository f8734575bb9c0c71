// The printer for JAX: shard_map over the mesh, and collectives of jax.lax inside it.
#include <algorithm>
#include <map>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/emission/device_form.h"
#include "retile/emission/named_ends.h"
#include "retile/emission/scaling.h"
#include "retile/emission/targets.h"
#include "retile/plan/text.h"
#include "retile/tensors/lowering.h"
#include "retile/types/text.h"

namespace retile::emission {
namespace {

// Whether the element type has parts of 64 bits, which JAX must be configured to allow.
bool is_64_bit(ElementType element) { return bytes_of(element) == (is_complex(element) ? 16 : 8); }

const char* function_of(Reduction reduction) {
  return reduction == Reduction::sum ? "add" : reduction == Reduction::max ? "maximum" : "minimum";
}
const char* method_of(Reduction reduction) {
  return reduction == Reduction::sum ? "sum" : reduction == Reduction::max ? "max" : "min";
}

std::string quoted(const std::string& text) { return fmt::format("{:?}", text); }

// A tuple: (), (8,), (8, 16).
std::string tuple_of(const std::vector<std::string>& entries) {
  return fmt::format("({}{})", fmt::join(entries, ", "), entries.size() == 1 ? "," : "");
}

template <typename Number>
std::string tuple_of(const std::vector<Number>& numbers) {
  std::vector<std::string> entries;
  for (const Number number : numbers) entries.push_back(fmt::format("{}", number));
  return tuple_of(entries);
}

// Names of axes: "x", ("x", "y").
std::string names_of(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<std::string> names;
  for (const int axis : axes) names.push_back(quoted(mesh.axis(axis).name));
  return names.size() == 1 ? names.front() : tuple_of(names);
}

std::string escaped(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' || text[i] == '"') text.insert(i++, "\\");
  }
  return text;
}

// A PartitionSpec, P(("x", "y"), None), without the dimensions after the last one that is cut.
std::string spec_of(const DistributedType& type) {
  std::vector<std::string> entries;
  std::size_t cut = 0;
  for (const Dimension& dimension : type.dimensions()) {
    std::vector<int> axes;
    for (auto part = dimension.axes.rbegin(); part != dimension.axes.rend(); ++part) axes.push_back(part->axis);
    entries.push_back(axes.empty() ? "None" : names_of(type.mesh(), axes));
    if (!axes.empty()) cut = entries.size();
  }
  entries.resize(cut);
  return fmt::format("P({})", fmt::join(entries, ", "));
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The constants AXES and SIZES.
std::string mesh_constants(const Mesh& mesh) {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const Axis& axis : mesh.axes()) {
    names.push_back(quoted(axis.name));
    sizes.push_back(axis.size);
  }
  return fmt::format("AXES = {}  # of the mesh; the last one numbers neighbouring devices\nSIZES = {}\n",
                     tuple_of(names), tuple_of(sizes));
}

// Lines that make JAX use this many devices on the CPU.
std::string settings_of(std::int64_t devices, ElementType element) {
  std::string settings = fmt::format(
      "    jax.config.update(\"jax_platforms\", \"cpu\")\n"
      "    jax.config.update(\"jax_num_cpu_devices\", {})\n",
      devices);
  if (is_64_bit(element)) settings += "    jax.config.update(\"jax_enable_x64\", True)\n";
  return settings;
}

bool is_float8(ElementType element) { return kind_of(element) == NumberKind::floating && bytes_of(element) == 1; }

// The element type in code; NumPy itself has neither bfloat16 nor floats of eight bits.
std::string dtype_text(ElementType element) {
  const bool is_numpys = element != ElementType::bf16 && !is_float8(element);
  return is_numpys ? quoted(numpy_name_of(element)) : fmt::format("jnp.{}", numpy_name_of(element));
}

std::string imports_of(const std::string& code) {
  std::string text = contains(code, "functools.") ? "import functools\nimport math\n\n" : "import math\n\n";
  text += "import jax\n";
  if (contains(code, "jnp.")) text += "import jax.numpy as jnp\n";
  text += "import numpy as np\n";
  if (contains(code, "lax.")) text += "from jax import lax\n";
  const char* single = contains(code, "SingleDeviceSharding") ? ", SingleDeviceSharding" : "";
  return text + fmt::format("from jax.sharding import NamedSharding, PartitionSpec as P{}\n", single);
}

std::string module_text(const Plan& plan, ElementType element, const std::string& code) {
  return fmt::format("\"\"\"{}.\n\n{}\"\"\"\n\n{}\n{}", escaped(summary_of(plan, element)),
                     escaped(plan_text(plan, "  ")), imports_of(code), code);
}

// --- Arrays on one device.

// The only device that holds anything; nothing where several do.
std::optional<Device> find_only_holder(const Placement& placement) {
  std::optional<Device> holder;
  for (Device device = 0; device < placement.device_count(); ++device) {
    if (placement.size(device) == 0) continue;
    if (holder) return std::nullopt;
    holder = device;
  }
  return holder;
}

// JAX's sharding on `mesh` for these boxes; nothing where it has none.
std::optional<std::string> sharding_text(const Mesh& mesh, const Placement& placement) {
  if (const auto device = find_only_holder(placement)) {
    return fmt::format("SingleDeviceSharding(mesh.devices.flat[{}])", *device);
  }
  const auto type = find_type(mesh, placement);
  if (!type) return std::nullopt;
  return fmt::format("NamedSharding(mesh, {})", spec_of(merge_neighbours(*type)));
}

// Code that copies from one device to a mesh or back, because programs of JAX have equal tiles on all devices. Nothing
// where the plan is not of this kind, or no sharding describes the other end.
std::optional<std::string> emit_copies(const Plan& plan, ElementType element) {
  const Placement &from = plan.movement.source, &to = plan.movement.target();
  const bool is_from_one = find_only_holder(from).has_value();
  if (plan.source.is_partial() || is_from_one == find_only_holder(to).has_value()) return std::nullopt;
  const auto cuts = (is_from_one ? plan.target : plan.source).cuts();
  if (!cuts || cuts->mesh.device_count() != from.device_count()) return std::nullopt;
  const Mesh& mesh = cuts->mesh;
  const auto source = sharding_text(mesh, from), target = sharding_text(mesh, to);
  if (!source || !target) return std::nullopt;
  const std::string code = fmt::format(
      R"({}SHAPE = {}


def source(mesh):
    return {}


def target(mesh):
    return {}


def redistribute(x, mesh):
    """Copies an array of SHAPE {} a mesh with these AXES; outside jit."""
    return jax.device_put(x, target(mesh))


def main():
    """Moves an array of numbers on devices of this machine's processor, and compares every one."""
{}    mesh = jax.make_mesh(SIZES, AXES)
    x = np.arange(math.prod(SHAPE)).astype({}).reshape(SHAPE)
    y = redistribute(jax.device_put(x, source(mesh)), mesh)
    assert y.shape == x.shape and y.sharding.is_equivalent_to(target(mesh), y.ndim)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
    print(f"verified on {{mesh.size}} devices")


if __name__ == "__main__":
    main()
)",
      mesh_constants(mesh), tuple_of(from.global_shape()), *source, *target,
      is_from_one ? "from one device to all of" : "to one device from all of",
      settings_of(mesh.device_count(), element), dtype_text(element));
  return module_text(plan, element, code);
}

using namespace tensors;

constexpr const char* zero_after = R"(

def zero_after(array):
    """Returns 0, which XLA cannot compute before it has the array."""
    first = array[(slice(0, 1),) * array.ndim].reshape(())
    return lax.shift_right_logical(first.real.astype(jnp.int32) & 1, 1)
)";

// A table of entries by device, or of groups or pairs of devices.
struct Table {
  std::string name;
  const char* opening;
  std::vector<std::string> entries;
  const char* closing;

  std::string text() const { return fmt::format("{}\n{},\n{}", opening, wrapped(entries, "    "), closing); }
};

// The parts of the code that depend on the lengths of the array.
struct SizedCode {
  std::string ends;
  std::vector<Table> tables;
  std::string functions;  // functions that move a tile

  std::string text() const {
    std::string text = ends;
    for (const Table& table : tables) {
      text += fmt::format("{}{} = {}\n", &table == &tables.front() ? "\n" : "", table.name, table.text());
    }
    return text + functions;
  }
};

// Code for both arrays; nothing where it differs in more than multiples of the unit.
std::optional<SizedCode> merged(const SizedCode& larger, const SizedCode& smaller, const Scale& scale) {
  const auto ends = merged(larger.ends, smaller.ends, scale),
             functions = merged(larger.functions, smaller.functions, scale);
  if (!ends || !functions || larger.tables.size() != smaller.tables.size()) return std::nullopt;
  SizedCode code{*ends, larger.tables, *functions};
  for (std::size_t i = 0; i < code.tables.size(); ++i) {
    const std::vector<std::string>& others = smaller.tables[i].entries;
    if (code.tables[i].entries.size() != others.size()) return std::nullopt;
    for (std::size_t j = 0; j < others.size(); ++j) {
      auto entry = merged(code.tables[i].entries[j], others[j], scale);
      if (!entry) return std::nullopt;
      entry->pop_back();  // the line's end
      code.tables[i].entries[j] = *std::move(entry);
    }
  }
  return code;
}

// The most bytes of an array that is checked in full: code for larger ones checks itself on a smaller array.
constexpr std::int64_t most_checked_bytes = std::int64_t{1} << 26;

// The operands and the result of a statement.
struct Use {
  std::vector<NamedValue> operands;
  NamedValue result;

  const std::string& first() const { return operands[0].name; }
  const std::string& second() const { return operands[1].name; }
  std::string all() const {
    std::vector<std::string> names;
    for (const NamedValue& operand : operands) names.push_back(operand.name);
    return fmt::format("{}", fmt::join(names, ", "));
  }
  // The dimensions in which the result is a part of the first operand.
  std::vector<std::size_t> cut_dimensions() const {
    std::vector<std::size_t> cut;
    for (std::size_t i = 0; i < result.shape.size(); ++i) {
      if (result.shape[i] != operands[0].shape[i]) cut.push_back(i);
    }
    return cut;
  }
};

// The values of a function. A result takes the name of its first operand where that is used for the last time.
class NamedValues {
 public:
  NamedValues(const std::vector<Statement>& statements, std::vector<NamedValue> arguments)
      : values_(std::move(arguments)), uses_(values_.size() + statements.size()), used_(uses_.size()) {
    for (const Statement& statement : statements) {
      for (const Value value : statement.operands) ++uses_[value];
    }
  }

  const std::string& result() const { return values_.back().name; }

  // The operands of a statement, and whether each is used for the last time.
  Use use(const Statement& statement) {
    Use use;
    for (const Value value : statement.operands) {
      use.operands.push_back(values_[value]);
      ++used_[value];
    }
    const Value first = statement.operands[0];
    const bool is_one_box = std::holds_alternative<SliceOp>(statement.operation) && uses_[first] > 1;
    if (is_one_box) {
      use.result.name = fmt::format("box_{}", ++boxes_);
    } else if (statement.operands.size() > 1 && is_free("tile")) {
      use.result.name = "tile";
    } else {
      use.result.name = used_[first] == uses_[first] ? use.first() : fmt::format("box_{}", ++boxes_);
    }
    use.result.shape = statement.shape;
    values_.push_back(use.result);
    return use;
  }

 private:
  bool is_free(const char* name) const {
    for (Value value = 0; value < values_.size(); ++value) {
      if (values_[value].name == name && used_[value] < uses_[value]) return false;
    }
    return true;
  }

  std::vector<NamedValue> values_;
  std::vector<int> uses_;  // by value
  std::vector<int> used_;  // uses so far, by value
  int boxes_ = 0;
};

class JaxPrinter {
 public:
  JaxPrinter(const Plan& plan, ElementType element, ProgramForm form)
      : plan_(plan),
        element_(element),
        form_(form),
        program_(lower(plan, bytes_of(element), options_for(form))),
        ends_(name_ends(program_.movement)) {
    if (!ends_.source || !ends_.target) {
      refuse(Target::jax, "ends that lie along no axes of one mesh", "--as stablehlo and --as mpi need no axes");
    }
  }

  std::string print() {
    SizedCode code = sized_code();
    const auto both = find_code_of_both(code);
    const std::string text =
        fmt::format("{}\n\n{}\n\n{}", (both ? *both : code).text(), array_function(), main_function(both.has_value()));
    return module_text(plan_, element_, text);
  }

 private:
  SizedCode sized_code() {
    const std::string function = tile_function();
    const char* helper = contains(function, "zero_after(") ? zero_after : "";
    return {ends(), tables_, fmt::format("{}{}\n\n{}", helper, branches_, function)};
  }

  // Code for this array and a smaller one, on which the program checks itself when it is run. Nothing where this array
  // is small enough, or no smaller one is cut alike.
  std::optional<SizedCode> find_code_of_both(const SizedCode& code) const {
    if (product(program_.array()) <= most_checked_bytes / bytes_of(element_)) return std::nullopt;
    for (const Scale& scale : find_scales(plan_.movement)) {
      const Plan plan = scaled(plan_, scale);
      auto both = merged(code, JaxPrinter(plan, element_, form_).sized_code(), scale);
      if (!both) continue;
      both->ends.insert(
          0,
          fmt::format("UNIT = {} if __name__ == \"__main__\" else {}  # run as a program, it checks a smaller array\n",
                      scale.smaller, scale.unit));
      return both;
    }
    return std::nullopt;
  }

  const Mesh& mesh() const { return ends_.mesh; }

  std::string ends() const {
    std::string text = mesh_constants(mesh());
    const Shape& shape = plan_.movement.source.global_shape();
    std::string remark;
    if (shape != program_.array()) remark = fmt::format("  # padded: the array has {}", tuple_of(shape));
    if (find_reduce() != nullptr || plan_.source.is_partial()) remark = "  # parts of a sum in front";
    if (!plan_.view.empty()) remark = "  # the array's dimensions in factors";
    text += fmt::format("SHAPE = {}{}\n", tuple_of(program_.array()), remark);
    return text + fmt::format("SOURCE = {}\nTARGET = {}\n", spec_of(*ends_.source), spec_of(*ends_.target));
  }

  // --- Constants: tables by device. Equal tables share a name.

  std::string constant(const char* kind, const std::vector<std::string>& entries, const char* opening,
                       const char* closing) {
    Table table{"", opening, entries, closing};
    const auto [found, is_new] = named_.try_emplace(table.text());
    if (!is_new) return found->second;
    found->second = table.name = fmt::format("{}_{}", kind, ++counts_[kind]);
    tables_.push_back(std::move(table));
    return found->second;
  }

  // The device's entry of a table.
  std::string entry_of(const char* kind, const std::vector<std::string>& entries) {
    uses_device_ = true;
    return fmt::format("jnp.asarray({})[device]", constant(kind, entries, "np.array([", "])"));
  }

  std::string entry_of(const char* kind, const std::vector<std::int64_t>& numbers) {
    std::vector<std::string> entries;
    for (const std::int64_t number : numbers) entries.push_back(fmt::format("{}", number));
    return entry_of(kind, entries);
  }

  std::string entry_of(const char* kind, const std::vector<Shape>& rows) {
    std::vector<std::string> entries;
    for (const Shape& row : rows) entries.push_back(listed("[", row, "]"));
    return entry_of(kind, entries);
  }

  // The axes of a collective, with lists of its groups where they do not lie along axes.
  std::string groups_of(const Groups& groups) {
    if (const auto axes = find_group_axes(mesh(), groups)) return names_of(mesh(), *axes);
    std::vector<std::string> entries;
    for (const std::vector<Device>& group : groups) entries.push_back(listed("[", group, "]"));
    return fmt::format("AXES, axis_index_groups={}", constant("GROUPS", entries, "[", "]"));
  }

  // --- Numbers that differ by device.

  std::string number(const DeviceForm& form) {
    return expression_of(form, [&](const DigitTerm& term) { return digit(term); });
  }

  // A digit by names of axes, where it is made of whole axes or is a part of one; by the device's number otherwise.
  std::string digit(const DigitTerm& term) {
    std::vector<int> axes;
    std::int64_t size = 1;
    for (int axis = mesh().axis_count(); axis-- > 0;) {  // minor to major
      const auto [stride, length] = std::pair(mesh().stride(mesh().whole(axis)), mesh().axis(axis).size);
      if (length > 1 && stride == term.stride * size && size < term.size) {
        axes.insert(axes.begin(), axis);
        size *= length;
      }
      if (stride <= term.stride && term.stride * term.size <= stride * length) {
        return digit_text({term.stride / stride, term.size, 1}, length,
                          fmt::format("lax.axis_index({})", quoted(mesh().axis(axis).name)), "//");
      }
    }
    if (size == term.size) return fmt::format("lax.axis_index({})", names_of(mesh(), axes));
    uses_device_ = true;
    return digit_text(term, mesh().device_count(), "device", "//");
  }

  // --- Statements, each an expression of its operands.

  std::string expression(const SliceOp& op, const Use& use) {
    const std::string shape = tuple_of(use.result.shape);
    if (use.operands.size() > 1) {
      return fmt::format("lax.dynamic_slice({}, {} + zero_after({}), {})", use.first(), corner_array(op.corners),
                         use.second(), shape);
    }
    if (op.corners.size() == 1) {
      Shape end = op.corners[0];
      for (std::size_t i = 0; i < end.size(); ++i) end[i] += use.result.shape[i];
      return fmt::format("lax.slice({}, {}, {})", use.first(), tuple_of(op.corners[0]), tuple_of(end));
    }
    std::vector<std::string> starts;
    for (std::size_t i = 0; i < use.result.shape.size(); ++i) {
      const auto form = find_form(mesh(), along(op.corners, i));
      if (!form) return fmt::format("lax.dynamic_slice({}, {}, {})", use.first(), corner_array(op.corners), shape);
      starts.push_back(number(*form));
    }
    const std::vector<std::size_t> cut = use.cut_dimensions();
    if (cut.size() > 1) return fmt::format("lax.dynamic_slice({}, {}, {})", use.first(), tuple_of(starts), shape);
    return fmt::format("lax.dynamic_slice_in_dim({}, {}, {}, axis={})", use.first(), starts[cut[0]],
                       use.result.shape[cut[0]], cut[0]);
  }

  std::string corner_array(const Corners& corners) {
    return corners.size() > 1 ? entry_of("CORNERS", corners)
                              : fmt::format("np.array({})", listed("[", corners[0], "]"));
  }

  static std::string expression(const ReshapeOp& /*op*/, const Use& use) {
    return fmt::format("{}.reshape({})", use.first(),
                       use.result.shape.empty() ? "()" : listed("", use.result.shape, ""));
  }

  static std::string expression(const TransposeOp& op, const Use& use) {
    return fmt::format("{}.transpose({})", use.first(), fmt::join(op.order, ", "));
  }

  std::string expression(const GatherOp& op, const Use& use) {
    return fmt::format("lax.all_gather({}, {}, axis={}, tiled=True)", use.first(), groups_of(op.groups), op.dimension);
  }

  std::string expression(const AllToAllOp& op, const Use& use) {
    return fmt::format("lax.all_to_all({}, {}, split_axis={}, concat_axis={}, tiled=True)", use.first(),
                       groups_of(op.groups), op.split, op.join);
  }

  std::string expression(const PermuteOp& op, const Use& use) {
    std::vector<std::string> pairs;
    for (std::size_t target = 0; target < op.senders.size(); ++target) {
      pairs.push_back(fmt::format("({}, {})", op.senders[target], target));
    }
    return fmt::format("lax.ppermute({}, AXES, {})", use.first(), constant("PAIRS", pairs, "[", "]"));
  }

  static std::string expression(const StackOp& /*op*/, const Use& use) {
    return fmt::format("jnp.stack([{}])", use.all());
  }

  static std::string expression(const ConcatenateOp& op, const Use& use) {
    return fmt::format("lax.concatenate([{}], {})", use.all(), op.dimension);
  }

  std::string expression(const PickOp& op, const Use& use) {
    return fmt::format("{}.take({}, axis=0, mode=\"clip\")", use.first(), entry_of("ORDER", op.order));
  }

  std::string expression(const SelectOp& op, const Use& use) {
    return fmt::format("jnp.where({}, {}, {})", entry_of("CHOSEN", op.chosen), use.second(), use.first());
  }

  std::string expression(const SwitchOp& op, const Use& use) {
    std::vector<std::string> names;
    for (const std::vector<Statement>& statements : op.branches) {
      NamedValues values(statements, use.operands);
      std::string lines;
      for (const Statement& statement : statements) lines += line(statement, values);
      names.push_back(fmt::format("branch_{}", ++counts_["branch"]));
      branches_ += fmt::format("\n\ndef {}({}):\n{}    return {}\n", names.back(), use.all(), lines, values.result());
    }
    return fmt::format("lax.switch({}, [{}], {})", entry_of("BRANCH", op.chosen), fmt::join(names, ", "), use.all());
  }

  static std::string expression(const ZerosOp& /*op*/, const Use& use) {
    return fmt::format("jnp.zeros({}, {}.dtype)", tuple_of(use.result.shape), use.first());
  }

  std::string expression(const UpdateOp& op, const Use& use) {
    return fmt::format("lax.dynamic_update_slice({}, {}, {})", use.first(), use.second(), corner_array(op.corners));
  }

  std::string expression(const CombineOp& op, const Use& use) const {
    const std::string combined = fmt::format("functools.reduce(jnp.{}, {}", function_of(op.reduction), use.first());
    if (!is_half(element_)) return combined + ")  # in the order of the parts";
    return fmt::format("{}.astype(\"float32\")).astype({}.dtype)", combined, use.first());
  }

  // --- Functions.

  std::string line(const Statement& statement, NamedValues& values) {
    const Use use = values.use(statement);
    const auto print = [&](const auto& op) { return expression(op, use); };
    return fmt::format("    {} = {}\n", use.result.name, std::visit(print, statement.operation));
  }

  std::string tile_function() {
    NamedValues values(program_.statements(), {{"tile", program_.tile()}});
    std::string body;
    for (const ProgramStage& stage : program_.stages) {
      for (std::size_t i = stage.steps.first; i <= stage.steps.last; ++i) {
        body += fmt::format("    # {}\n", step_text(plan_, i));
      }
      for (const Statement& statement : stage.statements) body += line(statement, values);
    }
    const std::string device = uses_device_ ? "    device = lax.axis_index(AXES)\n" : "";
    return fmt::format(
        "def move_tile(tile):\n    \"\"\"What every device does with its tile of {}.\"\"\"\n{}{}"
        "    return {}\n",
        tuple_of(program_.tile()), device, body, values.result());
  }

  // A phrase such as "Costs 8 elements per device (paper)" or "Takes 6.4 s".
  std::string cost_phrase() const {
    const PlanCost& cost = plan_.cost;
    if (plan_.time && cost.model == "seconds") return fmt::format("Takes {}", duration_text(cost.total));
    return fmt::format("Costs {} {} per device ({})", group_digits(cost.total),
                       cost.total == 1 ? "element" : "elements", cost.model);
  }

  std::string array_function() const {
    return fmt::format(R"(def redistribute(x, mesh):
    """Moves an array of SHAPE from SOURCE to TARGET on a mesh with these AXES; inside jit or outside.

    {}, and holds tiles of {} at most.
    """
    move = jax.shard_map(move_tile, mesh=mesh, in_specs=SOURCE, out_specs=TARGET, check_vma=False)
    return move(x)
)",
                       cost_phrase(), group_digits(plan_.memory.peak));
  }

  std::string main_function(bool is_on_smaller_array) const {
    const auto* reduce = find_reduce();
    const bool is_small = reduce != nullptr || element_ == ElementType::boolean || is_float8(element_);
    const char* numbers = is_small ? "(np.arange(math.prod(SHAPE)) % 7)" : "np.arange(math.prod(SHAPE))";
    std::string expected = "x";
    if (reduce != nullptr) {
      expected = fmt::format("x.{}(axis={})", method_of(reduce->reduction), tuple_of(reduce->dimensions));
      if (reduce->reduction == Reduction::sum) expected.insert(expected.size() - 1, ", dtype=x.dtype");
    }
    return fmt::format(R"(def main():
    """Moves an array of numbers on devices of this machine's processor, and compares every one."""
{}    mesh = jax.make_mesh(SIZES, AXES)
    x = {}.astype({}).reshape(SHAPE)
    y = jax.jit(redistribute, static_argnums=1)(jax.device_put(x, NamedSharding(mesh, SOURCE)), mesh)
    expected = {}
    assert y.shape == expected.shape and y.sharding.is_equivalent_to(NamedSharding(mesh, TARGET), y.ndim)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])
    print(f"verified on {{mesh.size}} devices{}")


if __name__ == "__main__":
    main()
)",
                       settings_of(mesh().device_count(), element_), numbers, dtype_text(element_), expected,
                       is_on_smaller_array ? ", on an array of {SHAPE}" : "");
  }

  const ReduceStep* find_reduce() const {
    for (const Step& step : plan_.steps()) {
      if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) return reduce;
    }
    return nullptr;
  }

  const Plan& plan_;
  const ElementType element_;
  const ProgramForm form_;
  const TensorProgram program_;
  const NamedEnds ends_;
  std::vector<Table> tables_;
  std::string branches_;
  std::map<std::string, std::string> named_;  // constants by their text
  std::map<std::string, int> counts_;         // number of constants by kind
  bool uses_device_ = false;
};

}  // namespace

std::string emit_jax(const Plan& plan, ElementType element, tensors::ProgramForm form) {
  if (auto copies = emit_copies(plan, element)) return *std::move(copies);
  return JaxPrinter(plan, element, form).print();
}

}  // namespace retile::emission
