// The printer for StableHLO: what each partition does with its tile, as a compiler has it after partitioning.
#include <map>
#include <utility>

#include "retile/emission/device_form.h"
#include "retile/emission/mlir_text.h"
#include "retile/emission/targets.h"
#include "retile/types/text.h"

namespace retile::emission {
namespace {

constexpr const char* channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";

class StablehloPrinter : public ProgramText<StablehloPrinter> {
 public:
  StablehloPrinter(const Plan& plan, ElementType element)
      : ProgramText(plan, element, UnsignedIntegers::in_types, dialect_options("StableHLO"), "    ") {}

  std::string print() {
    const std::string result = add_program();
    return fmt::format(
        "// {}\n//\n{}module @redistribute attributes {{mhlo.num_partitions = {} : i32, mhlo.num_replicas = 1 : i32}} "
        "{{\n  func.func public @main(%tile: {}) -> {} {{\n{}  }}\n}}\n",
        summary_of(plan_, element()), plan_text(plan_, "//   "), plan_.device_count(), tensor_of(program_.tile()),
        result, text());
  }

 private:
  friend ProgramText;

  // --- Numbers that differ by device.

  // The partition's number as an index.
  std::string device() {
    if (device_.empty()) {
      const std::string id = add_value("stablehlo.partition_id : tensor<ui32>");
      device_ = add_value("stablehlo.convert {} : (tensor<ui32>) -> tensor<i32>", id);
    }
    return device_;
  }

  std::string number(std::int64_t number) {
    return once(fmt::format("stablehlo.constant dense<{}> : tensor<i32>", number));
  }

  std::string number_by_device(const std::vector<std::int64_t>& numbers) {
    const auto form = find_form(plan_.mesh(), numbers);
    if (form && form->is_constant()) return number(form->constant);
    const std::string table =
        once(fmt::format("stablehlo.constant dense<{}> : tensor<{}xi32>", listed("[", numbers, "]"), numbers.size()));
    const std::string row =
        add_value("stablehlo.dynamic_slice {}, {}, sizes = [1] : (tensor<{}xi32>, tensor<i32>) -> tensor<1xi32>", table,
                  device(), numbers.size());
    return add_value("stablehlo.reshape {} : (tensor<1xi32>) -> tensor<i32>", row);
  }

  // --- Statements. Each returns the name of its value.

  std::string slice(const std::vector<Shape>& corners, const std::string& value, const Shape& before,
                    const Shape& after) {
    if (before == after) return value;
    std::vector<std::string> starts;
    for (std::size_t i = 0; i < after.size(); ++i) starts.push_back(number_by_device(along(corners, i)));
    std::string types = tensor_of(before);
    for (std::size_t i = 0; i < after.size(); ++i) types += ", tensor<i32>";
    return add_value("stablehlo.dynamic_slice {}, {}, sizes = [{}] : ({}) -> {}", value, fmt::join(starts, ", "),
                     fmt::join(after, ", "), types, tensor_of(after));
  }

  std::string add(const tensors::SliceOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return slice(op.corners, value, before, after);
  }

  std::string add(const tensors::ReshapeOp& /*op*/, const std::string& value, const Shape& before, const Shape& after) {
    return add_value("stablehlo.reshape {} : ({}) -> {}", value, tensor_of(before), tensor_of(after));
  }

  std::string add(const tensors::TransposeOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return add_value("stablehlo.transpose {}, dims = {} : ({}) -> {}", value, listed("[", op.order, "]"),
                     tensor_of(before), tensor_of(after));
  }

  std::string add(const tensors::GatherOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return add_value(
        "\"stablehlo.all_gather\"({}) <{{all_gather_dim = {} : i64, {}, replica_groups = {}, "
        "use_global_device_ids}}> : ({}) -> {}",
        value, op.dimension, channel, groups_of(op.groups), tensor_of(before), tensor_of(after));
  }

  std::string add(const tensors::AllToAllOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return add_value(
        "\"stablehlo.all_to_all\"({}) <{{{}, concat_dimension = {} : i64, replica_groups = {}, split_count = {} : i64, "
        "split_dimension = {} : i64}}> : ({}) -> {}",
        value, channel, op.join, groups_of(op.groups), op.groups.front().size(), op.split, tensor_of(before),
        tensor_of(after));
  }

  std::string add(const tensors::PermuteOp& op, const std::string& value, const Shape& /*before*/, const Shape& after) {
    std::vector<std::vector<Device>> pairs;
    for (std::size_t target = 0; target < op.senders.size(); ++target) {
      pairs.push_back({op.senders[target], static_cast<Device>(target)});
    }
    return add_value("\"stablehlo.collective_permute\"({}) <{{{}, source_target_pairs = {}}}> : ({}) -> {}", value,
                     channel, groups_of(pairs), tensor_of(after), tensor_of(after));
  }

  std::string concatenated(const std::vector<std::string>& values, int dimension, const Shape& one, const Shape& all) {
    const std::vector<std::string> types(values.size(), tensor_of(one));
    return add_value("stablehlo.concatenate {}, dim = {} : ({}) -> {}", fmt::join(values, ", "), dimension,
                     fmt::join(types, ", "), tensor_of(all));
  }

  std::string add(const tensors::PickOp& op, const std::string& value, const Shape& before, const Shape& after) {
    const std::size_t count = op.order.front().size();
    std::vector<std::string> rows;
    for (const Shape& row : op.order) rows.push_back(listed("[", row, "]"));
    const std::string table = once(
        fmt::format("stablehlo.constant dense<{}> : tensor<{}x{}xi32>", listed("[", rows, "]"), rows.size(), count));
    const std::string row = add_value(
        "stablehlo.dynamic_slice {}, {}, {}, sizes = [1, {}] : (tensor<{}x{}xi32>, tensor<i32>, tensor<i32>) -> "
        "tensor<1x{}xi32>",
        table, device(), number(0), count, rows.size(), count, count);
    const std::string order =
        add_value("stablehlo.reshape {} : (tensor<1x{}xi32>) -> tensor<{}x1xi32>", row, count, count);
    std::vector<std::size_t> offsets;
    for (std::size_t i = 1; i < before.size(); ++i) offsets.push_back(i);
    Shape sizes = before;
    sizes.front() = 1;
    return add_value(
        "\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, "
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, "
        "slice_sizes = array<i64: {}>}}> : ({}, tensor<{}x1xi32>) -> {}",
        value, order, listed("[", offsets, "]"), fmt::join(sizes, ", "), tensor_of(before), count, tensor_of(after));
  }

  std::string add(const tensors::CombineOp& op, const std::string& value, const Shape& before, const Shape& after) {
    return add_combined(op, value, before, after);
  }

  std::string part(const std::string& value, std::int64_t number, const Shape& before, const Shape& row) {
    std::vector<std::string> ranges{fmt::format("{}:{}", number, number + 1)};
    for (std::size_t i = 1; i < before.size(); ++i) ranges.push_back(fmt::format("0:{}", before[i]));
    return add_value("stablehlo.slice {} {} : ({}) -> {}", value, listed("[", ranges, "]"), tensor_of(before),
                     tensor_of(row));
  }

  std::string converted(const std::string& value, const std::string& from, const std::string& to) {
    return add_value("stablehlo.convert {} : ({}) -> {}", value, from, to);
  }

  std::string combined(Reduction reduction, const std::string& first, const std::string& second,
                       const std::string& type) {
    const char* name = reduction == Reduction::sum ? "add" : reduction == Reduction::max ? "maximum" : "minimum";
    return add_value("stablehlo.{} {}, {} : {}", name, first, second, type);
  }

  static std::string groups_of(const Groups& groups) {
    std::vector<std::string> lists;
    for (const std::vector<Device>& group : groups) lists.push_back(listed("[", group, "]"));
    return fmt::format("dense<{}> : tensor<{}x{}xi64>", listed("[", lists, "]"), groups.size(), groups.front().size());
  }

  std::string device_;
};

}  // namespace

std::string emit_stablehlo(const Plan& plan, ElementType element) { return StablehloPrinter(plan, element).print(); }

}  // namespace retile::emission
