// The printer for MLIR's mesh dialect as of LLVM 19: collectives along axes of a mesh, and messages between its
// processes.
#include <utility>

#include "retile/emission/device_form.h"
#include "retile/emission/mlir_text.h"
#include "retile/emission/named_ends.h"
#include "retile/emission/targets.h"
#include "retile/types/text.h"

namespace retile::emission {
namespace {

Mesh prime_mesh(const Mesh& mesh) { return refine(mesh, mesh.prime_parts()); }

// The mesh dialect has groups only along axes, if need be with an axis for each prime. Messages go between any
// processes.
tensors::LoweringOptions options_for(const Mesh& mesh) {
  tensors::LoweringOptions options = dialect_options("MLIR");
  options.takes_groups = [primes = prime_mesh(mesh)](const Groups& groups) {
    return find_group_axes(primes, groups).has_value();
  };
  return options;
}

// A mesh along whose axes all groups lie: the mesh of the ends, or one with an axis for each prime.
Mesh mesh_of(const tensors::TensorProgram& program) {
  Mesh mesh = name_ends(program.movement).mesh;
  for (const tensors::Statement& statement : program.statements()) {
    const Groups* groups = tensors::groups_of(statement.operation);
    if (groups != nullptr && !find_group_axes(mesh, *groups)) return prime_mesh(mesh);
  }
  return mesh;
}

class MlirPrinter : public ProgramText<MlirPrinter> {
 public:
  MlirPrinter(const Plan& plan, ElementType element)
      : ProgramText(plan, element, UnsignedIntegers::in_operations, options_for(plan.mesh()), "  "),
        mesh_(mesh_of(program_)) {}

  std::string print() {
    std::vector<std::int64_t> sizes;
    for (const Axis& axis : mesh_.axes()) sizes.push_back(axis.size);
    const std::string result = add_program();
    return fmt::format(
        "// {}\n//\n{}mesh.mesh @mesh(shape = {})\n\nfunc.func @redistribute(%tile: {}) -> {} {{\n{}}}\n",
        summary_of(plan_, element()), plan_text(plan_, "//   "), fmt::join(sizes, "x"), tensor_of(program_.tile()),
        result, text());
  }

 private:
  friend ProgramText;

  // --- Numbers that differ by device.

  std::string number_by_device(const std::vector<std::int64_t>& numbers) {
    const std::string device = once("mesh.process_linear_index on @mesh : index");
    const std::string table =
        once(fmt::format("arith.constant dense<{}> : tensor<{}xindex>", listed("[", numbers, "]"), numbers.size()));
    return add_value("tensor.extract {}[{}] : tensor<{}xindex>", table, device, numbers.size());
  }

  std::string axes_of(const std::vector<int>& axes) const { return listed("[", axes, "]"); }

  // --- Statements. Each returns the name of its value.

  // Slices along axes where they cut the tile, otherwise at corners that differ by device.
  std::string slice(const std::vector<Shape>& corners, std::string value, Shape before, const Shape& after) {
    std::vector<std::string> starts;
    bool is_left = false;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto form = find_form(mesh_, along(corners, i));
      starts.push_back(form && form->is_constant() ? fmt::format("{}", form->constant) : "");
      if (before[i] == after[i]) continue;
      const auto axes = form ? find_cut_axes(mesh_, *form, after[i]) : std::nullopt;
      std::int64_t tiles = 1;
      for (const int axis : axes.value_or(std::vector<int>{})) tiles *= mesh_.axis(axis).size;
      if (!axes || tiles * after[i] != before[i]) {
        is_left = true;
        continue;
      }
      Shape cut = before;
      cut[i] = after[i];
      value = add_value("mesh.all_slice {} on @mesh mesh_axes = {} slice_axis = {} : {} -> {}", value, axes_of(*axes),
                        i, tensor_of(before), tensor_of(cut));
      before = cut;
      starts[i] = "0";
    }
    if (!is_left) return value;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (starts[i].empty()) starts[i] = number_by_device(along(corners, i));
    }
    return extract(value, starts, before, after);
  }

  std::string extract(const std::string& value, const std::vector<std::string>& starts, const Shape& before,
                      const Shape& after) {
    const Shape ones(after.size(), 1);
    return add_value("tensor.extract_slice {}{} {} {} : {} to {}", value, listed("[", starts, "]"),
                     listed("[", after, "]"), listed("[", ones, "]"), tensor_of(before), tensor_of(after));
  }

  std::string add(const tensors::SliceOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return slice(op.corners, value, before, after);
  }

  std::string add(const tensors::ReshapeOp& /*op*/, const std::string& value, const Shape& before, const Shape& after) {
    const std::string shape_type = fmt::format("tensor<{}xindex>", after.size());
    const std::string shape =
        once(after.empty() ? fmt::format("tensor.empty() : {}", shape_type)
                           : fmt::format("arith.constant dense<{}> : {}", listed("[", after, "]"), shape_type));
    return add_value("tensor.reshape {}({}) : ({}, {}) -> {}", value, shape, tensor_of(before), shape_type,
                     tensor_of(after));
  }

  std::string add(const tensors::TransposeOp& op, const std::string& value, const Shape& before, const Shape& after) {
    const std::string empty = add_value("tensor.empty() : {}", tensor_of(after));
    return add_value("linalg.transpose ins({} : {}) outs({} : {}) permutation = {}", value, tensor_of(before), empty,
                     tensor_of(after), listed("[", op.order, "]"));
  }

  std::string add(const tensors::GatherOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return add_value("mesh.all_gather {} on @mesh mesh_axes = {} gather_axis = {} : {} -> {}", value,
                     axes_of(*find_group_axes(mesh_, op.groups)), op.dimension, tensor_of(before), tensor_of(after));
  }

  std::string add(const tensors::AllToAllOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return add_value("mesh.all_to_all {} on @mesh mesh_axes = {} split_axis = {} concat_axis = {} : {} -> {}", value,
                     axes_of(*find_group_axes(mesh_, op.groups)), op.split, op.join, tensor_of(before),
                     tensor_of(after));
  }

  // Every process sends its tile and receives one.
  std::string add(const tensors::PermuteOp& op, const std::string& value, const Shape& /*before*/, const Shape& after) {
    std::vector<Device> receivers(op.senders.size());
    for (std::size_t target = 0; target < op.senders.size(); ++target) {
      receivers[static_cast<std::size_t>(op.senders[target])] = static_cast<Device>(target);
    }
    const std::string sent = message("send", "destination", receivers, value, after);
    return message("recv", "source", op.senders, sent, after);
  }

  std::string message(const char* operation, const char* peer, const std::vector<Device>& peers,
                      const std::string& value, const Shape& shape) {
    std::vector<std::string> coordinates;
    std::vector<int> axes;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      std::vector<std::int64_t> along_axis;
      for (const Device device : peers) along_axis.push_back(mesh_.coordinate(device, mesh_.whole(axis)));
      coordinates.push_back(number_by_device(along_axis));
      axes.push_back(axis);
    }
    const std::vector<std::string> types(axes.size(), "index");
    return add_value("mesh.{} {} on @mesh mesh_axes = {} {} = {} : ({}, {}) -> {}", operation, value, axes_of(axes),
                     peer, listed("[", coordinates, "]"), tensor_of(shape), fmt::join(types, ", "), tensor_of(shape));
  }

  std::string concatenated(const std::vector<std::string>& values, int dimension, const Shape& one, const Shape& all) {
    const std::vector<std::string> types(values.size(), tensor_of(one));
    return add_value("tensor.concat dim({}) {} : ({}) -> {}", dimension, fmt::join(values, ", "),
                     fmt::join(types, ", "), tensor_of(all));
  }

  std::string add(const tensors::PickOp& op, const std::string& value, const Shape& before, const Shape& after) {
    Shape row = after;
    row.front() = 1;
    std::vector<std::string> rows;
    for (std::size_t i = 0; i < op.order.front().size(); ++i) {
      std::vector<std::string> starts(after.size(), "0");
      starts.front() = number_by_device(along(op.order, i));
      rows.push_back(extract(value, starts, before, row));
    }
    return concatenated(rows, 0, row, after);
  }

  std::string add(const tensors::CombineOp& op, const std::string& value, const Shape& before, const Shape& after) {
    if (is_complex(element())) refuse(Target::mlir, "sums of complex tensors", "--as stablehlo adds them");
    return add_combined(op, value, before, after);
  }

  std::string part(const std::string& value, std::int64_t number, const Shape& before, const Shape& row) {
    std::vector<std::string> starts(before.size(), "0");
    starts.front() = fmt::format("{}", number);
    return extract(value, starts, before, row);
  }

  // Converts between a half and single precision.
  std::string converted(const std::string& value, const std::string& from, const std::string& to) {
    return add_value("arith.{} {} : {} to {}", from.ends_with("f32>") ? "truncf" : "extf", value, from, to);
  }

  std::string combined(Reduction reduction, const std::string& first, const std::string& second,
                       const std::string& type) {
    return add_value("arith.{} {}, {} : {}", operation_of(reduction), first, second, type);
  }

  // The operation's name, such as "addf", "maxsi", "minui", "maximumf".
  std::string operation_of(Reduction reduction) const {
    const bool is_floating = kind_of(element()) == NumberKind::floating;
    if (reduction == Reduction::sum) return is_floating ? "addf" : "addi";
    if (is_floating) return fmt::format("{}imumf", name_of(reduction));
    return fmt::format("{}{}i", name_of(reduction), kind_of(element()) == NumberKind::signed_integer ? "s" : "u");
  }

  const Mesh mesh_;
};

}  // namespace

std::string emit_mlir(const Plan& plan, ElementType element) { return MlirPrinter(plan, element).print(); }

}  // namespace retile::emission
