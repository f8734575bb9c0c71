// JAX: shard_map over the mesh, and collectives of jax.lax in it.
#include <map>
#include <utility>

#include "retile/emission/device_form.h"
#include "retile/emission/targets.h"
#include "retile/emission/tensor_program.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"

namespace retile::emission {
namespace {

const char* dtype_of(ElementType element) {
  switch (element) {
    case ElementType::i8:
      return "int8";
    case ElementType::f16:
      return "float16";
    case ElementType::bf16:
      return "bfloat16";
    case ElementType::i32:
      return "int32";
    case ElementType::f32:
      return "float32";
    case ElementType::f64:
      return "float64";
    case ElementType::c64:
      return "complex64";
    case ElementType::c128:
      return "complex128";
  }
  return "";
}

bool is_64_bit(ElementType element) { return element == ElementType::f64 || element == ElementType::c128; }

const char* function_of(Reduction reduction) {
  return reduction == Reduction::sum ? "add" : reduction == Reduction::max ? "maximum" : "minimum";
}
const char* method_of(Reduction reduction) {
  return reduction == Reduction::sum ? "sum" : reduction == Reduction::max ? "max" : "min";
}

std::string quoted(const std::string& text) { return fmt::format("{:?}", text); }

// (), (8,), (8, 16).
std::string tuple_of(const std::vector<std::string>& entries) {
  return fmt::format("({}{})", fmt::join(entries, ", "), entries.size() == 1 ? "," : "");
}

template <typename Number>
std::string tuple_of(const std::vector<Number>& numbers) {
  std::vector<std::string> entries;
  for (const Number number : numbers) entries.push_back(fmt::format("{}", number));
  return tuple_of(entries);
}

// "x", ("x", "y").
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

// P(("x", "y"), None), the dimensions behind the last that is cut left out.
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

class JaxPrinter {
 public:
  JaxPrinter(const Plan& plan, ElementType element)
      : plan_(plan), element_(element), program_(lower(plan, Target::jax)) {
    if (!program_.source || !program_.target) {
      refuse(Target::jax, "ends that lie along no axes of one mesh", "--as stablehlo and --as mpi need no axes");
    }
  }

  std::string print() {
    const std::string body = tile_function();
    return fmt::format("\"\"\"{}\n\n{}\"\"\"\n\n{}\n{}{}\n\n{}\n\n{}\n\n{}", heading(), escaped(plan_text(plan_, "  ")),
                       imports(), ends(), constants_, body, array_function(), main_function());
  }

 private:
  const Mesh& mesh() const { return program_.mesh; }

  std::string heading() const { return escaped(summary_of(plan_, element_)) + "."; }

  std::string imports() const {
    std::string text = uses_functools_ ? "import functools\nimport math\n\n" : "import math\n\n";
    text += "import jax\n";
    if (uses_jnp_ || is_half(element_)) text += "import jax.numpy as jnp\n";
    text += "import numpy as np\n";
    if (uses_lax_) text += "from jax import lax\n";
    return text + "from jax.sharding import NamedSharding, PartitionSpec as P\n";
  }

  std::string ends() const {
    std::vector<std::string> names;
    std::vector<std::int64_t> sizes;
    for (const Axis& axis : mesh().axes()) {
      names.push_back(quoted(axis.name));
      sizes.push_back(axis.size);
    }
    std::string text = fmt::format("AXES = {}  # of the mesh; the last one numbers neighbouring devices\nSIZES = {}\n",
                                   tuple_of(names), tuple_of(sizes));
    const Shape& shape = plan_.movement.source.global_shape();
    std::string remark;
    if (shape != program_.shape) remark = fmt::format("  # padded: the array has {}", tuple_of(shape));
    if (!program_.combined.empty() || plan_.source.is_partial()) remark = "  # parts of a sum in front";
    if (!plan_.view.empty()) remark = "  # the array's dimensions in factors";
    text += fmt::format("SHAPE = {}{}\n", tuple_of(program_.shape), remark);
    return text + fmt::format("SOURCE = {}\nTARGET = {}\n", spec_of(*program_.source), spec_of(*program_.target));
  }

  // --- Constants: tables by device. Equal ones have one name.

  std::string constant(const char* kind, const std::vector<std::string>& entries, const char* opening,
                       const char* closing) {
    const std::string text = fmt::format("{}\n{},\n{}", opening, wrapped(entries, "    "), closing);
    const auto [found, is_new] = named_.try_emplace(text);
    if (!is_new) return found->second;
    found->second = fmt::format("{}_{}", kind, ++counts_[kind]);
    constants_ += fmt::format("{}{} = {}\n", constants_.empty() ? "\n" : "", found->second, text);
    return found->second;
  }

  // A device's row of a table.
  std::string row_of(const char* kind, const std::vector<Shape>& rows) {
    std::vector<std::string> entries;
    for (const Shape& row : rows) entries.push_back(listed("[", row, "]"));
    uses_jnp_ = uses_device_ = true;
    return fmt::format("jnp.asarray({})[device]", constant(kind, entries, "np.array([", "])"));
  }

  // The axes of a collective, and its groups where they are no axes'.
  std::string groups_of(const Groups& groups) {
    uses_lax_ = true;
    if (const auto axes = find_group_axes(mesh(), groups)) return names_of(mesh(), *axes);
    std::vector<std::string> entries;
    for (const std::vector<Device>& group : groups) entries.push_back(listed("[", group, "]"));
    return fmt::format("AXES, axis_index_groups={}", constant("GROUPS", entries, "[", "]"));
  }

  // --- Numbers that differ by device.

  std::string number(const DeviceForm& form) {
    return to_string(form, [&](const DigitTerm& term) { return digit(term); });
  }

  // By the names of axes where the digit is made of whole axes, or is a part of one.
  std::string digit(const DigitTerm& term) {
    uses_lax_ = true;
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

  // --- Statements, each an expression of the tile before it.

  std::string expression(const SliceOp& op, const Shape& before) { return slice("tile", op.corners, before, op.shape); }

  std::string slice(const std::string& tile, const std::vector<Shape>& corners, const Shape& before,
                    const Shape& shape) {
    std::vector<DeviceForm> forms;
    std::vector<std::size_t> cut;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != before[i]) cut.push_back(i);
      if (auto form = find_form(mesh(), along(corners, i))) forms.push_back(std::move(*form));
    }
    if (cut.empty()) return tile;
    uses_lax_ = true;
    if (forms.size() < shape.size()) {
      return fmt::format("lax.dynamic_slice({}, {}, {})", tile, row_of("CORNERS", corners), tuple_of(shape));
    }
    if (cut.size() == 1) {
      const DeviceForm& form = forms[cut.front()];
      return fmt::format("lax.{}slice_in_dim({}, {}, {}, axis={})", form.is_constant() ? "" : "dynamic_", tile,
                         number(form), form.is_constant() ? form.constant + shape[cut.front()] : shape[cut.front()],
                         cut.front());
    }
    std::vector<std::string> starts;
    for (const DeviceForm& form : forms) starts.push_back(number(form));
    return fmt::format("lax.dynamic_slice({}, {}, {})", tile, tuple_of(starts), tuple_of(shape));
  }

  static std::string expression(const ReshapeOp& op, const Shape& /*before*/) {
    return fmt::format("tile.reshape({})", fmt::join(op.shape, ", "));
  }

  static std::string expression(const TransposeOp& op, const Shape& /*before*/) {
    return fmt::format("tile.transpose({})", fmt::join(op.order, ", "));
  }

  std::string expression(const GatherOp& op, const Shape& /*before*/) {
    return fmt::format("lax.all_gather(tile, {}, axis={}, tiled=True)", groups_of(op.groups), op.dimension);
  }

  std::string expression(const AllToAllOp& op, const Shape& /*before*/) {
    return fmt::format("lax.all_to_all(tile, {}, split_axis={}, concat_axis={}, tiled=True)", groups_of(op.groups),
                       op.split, op.join);
  }

  std::string expression(const PermuteOp& op, const Shape& /*before*/) { return permuted("tile", op); }

  std::string permuted(const std::string& tile, const PermuteOp& op) {
    std::vector<std::string> pairs;
    for (std::size_t target = 0; target < op.senders.size(); ++target) {
      pairs.push_back(fmt::format("({}, {})", op.senders[target], target));
    }
    uses_lax_ = true;
    return fmt::format("lax.ppermute({}, AXES, {})", tile, constant("PAIRS", pairs, "[", "]"));
  }

  std::string expression(const CellsOp& op, const Shape& before) {
    std::string text = "jnp.stack([\n";
    for (const Cell& cell : op.cells) {
      const std::string box = slice("tile", cell.corners, before, op.shape);
      text += fmt::format("        {},\n", cell.sent ? permuted(box, *cell.sent) : box);
    }
    uses_jnp_ = true;
    return text + "    ])";
  }

  std::string expression(const PickOp& op, const Shape& /*before*/) {
    return fmt::format("tile.take({}, axis=0)", row_of("ORDER", op.order));
  }

  std::string expression(const CombineOp& op, const Shape& /*before*/) {
    uses_jnp_ = uses_functools_ = true;
    const char* function = function_of(op.reduction);
    if (!is_half(element_)) return fmt::format("functools.reduce(jnp.{}, tile)  # in the order of the parts", function);
    return fmt::format("functools.reduce(jnp.{}, tile.astype(\"float32\")).astype(tile.dtype)", function);
  }

  // --- Functions.

  std::string tile_function() {
    std::string body;
    Shape shape = program_.tile;
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      body += fmt::format("    # {}\n", step_text(plan_, i));
      for (const TensorStatement& statement : program_.steps[i]) {
        const auto print = [&](const auto& op) { return expression(op, shape); };
        body += fmt::format("    tile = {}\n", std::visit(print, statement.operation));
        shape = statement.shape;
      }
    }
    const std::string device = uses_device_ ? "    device = lax.axis_index(AXES)\n" : "";
    return fmt::format(
        "def move_tile(tile):\n    \"\"\"What every device does with its tile of {}.\"\"\"\n{}{}"
        "    return tile\n",
        tuple_of(program_.tile), device, body);
  }

  std::string array_function() const {
    return fmt::format(R"(def redistribute(x, mesh):
    """An array of SHAPE, from SOURCE to TARGET on a mesh with these AXES; inside jit or outside.

    Costs {} {} per device ({}), and holds tiles of {} at most.
    """
    move = jax.shard_map(move_tile, mesh=mesh, in_specs=SOURCE, out_specs=TARGET, check_vma=False)
    return move(x)
)",
                       group_digits(plan_.cost.total), plan_.cost.total == 1 ? "element" : "elements", plan_.cost.model,
                       group_digits(plan_.memory.peak));
  }

  std::string main_function() const {
    std::string settings = fmt::format(
        "    jax.config.update(\"jax_platforms\", \"cpu\")\n"
        "    jax.config.update(\"jax_num_cpu_devices\", {})\n",
        mesh().device_count());
    if (is_64_bit(element_)) settings += "    jax.config.update(\"jax_enable_x64\", True)\n";
    const bool is_combined = !program_.combined.empty();
    const std::string dtype =
        element_ == ElementType::bf16 ? "jnp.bfloat16" : fmt::format("\"{}\"", dtype_of(element_));
    const char* numbers = is_combined ? "(np.arange(math.prod(SHAPE)) % 7)" : "np.arange(math.prod(SHAPE))";
    std::string expected = "x";
    if (is_combined) {
      const auto* reduce = find_reduce();
      expected = fmt::format("x.{}(axis={})", method_of(reduce->reduction), tuple_of(program_.combined));
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
    print(f"verified on {{mesh.size}} devices")


if __name__ == "__main__":
    main()
)",
                       settings, numbers, dtype, expected);
  }

  const ReduceStep* find_reduce() const {
    for (const Step& step : plan_.steps()) {
      if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) return reduce;
    }
    return nullptr;
  }

  const Plan& plan_;
  const ElementType element_;
  const TensorProgram program_;
  std::string constants_;
  std::map<std::string, std::string> named_;  // constants by their text
  std::map<std::string, int> counts_;         // of constants by kind
  bool uses_device_ = false;
  bool uses_functools_ = false;
  bool uses_jnp_ = false;
  bool uses_lax_ = false;
};

}  // namespace

std::string emit_jax(const Plan& plan, ElementType element) { return JaxPrinter(plan, element).print(); }

}  // namespace retile::emission
