#include "tests/support/random_programs.h"

#include <fmt/format.h>

#include <vector>

#include "retile/language/program.h"
#include "retile/types/layout.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

class ProgramWriter {
 public:
  explicit ProgramWriter(std::uint32_t seed)
      : random_(seed),
        mesh_(parse_mesh(random_.pick<std::string>({"a=2,b=2", "a=2,b=3", "a=6", "a=2,b=2,c=2", "a=4,b=1,c=2"}))),
        element_(random_.pick<std::string>({"f32", "f64", "i32"})),
        divides_(random_.number(2) == 0),
        shape_(divisible_shape(mesh_, 1 + static_cast<int>(random_.number(2)))) {
    for (std::int64_t& size : shape_) size = divides_ ? size : 1 + static_cast<std::int64_t>(random_.number(9));
  }

  std::string write() {
    std::vector<std::string> parameters;
    for (std::size_t i = 0; i < 1 + random_.number(3); ++i) {
      const std::string name = declare(random_type());
      parameters.push_back(fmt::format("{} : {}", name, text_of(values_.back().type)));
    }
    const std::size_t statements = 2 + random_.number(6);
    for (std::size_t i = 0; i < statements; ++i) add_statement();
    std::vector<std::string> results;
    std::vector<std::string> types;
    for (std::size_t i = 0; i < 1 + random_.number(3); ++i) {
      const Value& value = random_.pick(values_);
      results.push_back(value.name);
      types.push_back(text_of(value.type));
    }
    return fmt::format("mesh {}\n{}fn main({}) -> {} {{\n{}  return {}\n}}\n", to_string(mesh_), functions_,
                       fmt::join(parameters, ", "), fmt::join(types, ", "), statements_, fmt::join(results, ", "));
  }

  bool divides() const { return divides_; }

 private:
  struct Value {
    std::string name;
    Layout type;
  };

  // A type of an array that not all layouts divide is cut unevenly, perhaps in factors.
  Layout random_type() {
    if (divides_) return random_.type(mesh_, shape_);
    MeshLayout layout{mesh_, {}, static_cast<UnevenRule>(random_.number(3)), {}, Reduction::sum, {}};
    for (const std::int64_t size : shape_) {
      std::vector<Factor>& factors = layout.view.emplace_back();
      if (size % 2 == 0 && random_.number(3) == 0) {
        factors = {{2, {}}, {size / 2, {}}};
      } else {
        factors = {{size, {}}};
      }
    }
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      const std::size_t dimension = random_.number(shape_.size() + 1);
      if (dimension == shape_.size()) continue;
      std::vector<AxisPart>& axes = layout.view[dimension][random_.number(layout.view[dimension].size())].axes;
      axes.insert(random_.number(2) == 0 ? axes.begin() : axes.end(), mesh_.whole(axis));
    }
    return Layout(std::move(layout));
  }

  static bool uses(const Layout& layout, int axis) {
    const MeshLayout cuts = *layout.cuts();
    for (const std::vector<Factor>& factors : cuts.view) {
      for (const Factor& factor : factors) {
        for (const AxisPart& part : factor.axes) {
          if (part.axis == axis) return true;
        }
      }
    }
    return false;
  }

  std::string text_of(const Layout& type) const { return element_ + to_string(type); }
  std::string local_text(const Layout& type) const {
    return element_ + to_string(tile_shape(language::array_type_of(ElementType::f32, *type.cuts())));
  }

  std::string declare(Layout type) {
    values_.push_back({fmt::format("v{}", values_.size()), std::move(type)});
    return values_.back().name;
  }

  void add_statement() {
    switch (random_.number(5)) {
      case 0:
      case 1:
        return redistribute();
      case 2:
        return compute();
      case 3:
        return add_up();
      default:
        return call();
    }
  }

  void redistribute() {
    const Value from = random_.pick(values_);
    const Layout type = random_type();
    statements_ += fmt::format("  {} = redistribute {} as {}\n", declare(type), from.name, text_of(type));
  }

  // One of its type, perhaps itself.
  Value like(const Value& first) {
    std::vector<Value> alike;
    for (const Value& value : values_) {
      if (value.type == first.type) alike.push_back(value);
    }
    return random_.pick(alike);
  }

  void compute() {
    const Value first = random_.pick(values_);
    const Value second = like(first);
    const std::string work = random_.pick<std::string>({"s + t / 3", "(s - t) * s", "max s (-t)", "relu t, s"});
    const std::string type = text_of(first.type);
    const bool two = work.find(',') != std::string::npos;
    const std::string results = two ? declare(first.type) + ", " + declare(first.type) : declare(first.type);
    statements_ +=
        fmt::format("  {} = spmd_op {} {} (s : {}, t : {}) {{ return {} }} as {}{}\n", results, first.name, second.name,
                    local_text(first.type), local_text(first.type), work, type, two ? ", " + type : "");
  }

  // Parts of a sum or the like over axes that cut nothing, where there are some.
  void add_up() {
    const Value from = random_.pick(values_);
    std::vector<std::string> axes;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (!uses(from.type, axis) && random_.number(3) > 0) axes.push_back(mesh_.axis(axis).name);
    }
    if (axes.empty()) return compute();
    const std::string type = text_of(from.type);
    const std::string partial = fmt::format("partial{}", values_.size());
    statements_ +=
        fmt::format("  {} = spmd_op {} (t : {}) {{ return t * convert (coordinate {} + 1) {} / 3 }} as {} {} {{{}}}\n",
                    partial, from.name, local_text(from.type), axes[0], element_, type,
                    random_.pick<std::string>({"sum", "sum", "max", "min"}), fmt::join(axes, ", "));
    if (random_.number(2) == 0) {
      statements_ += fmt::format("  {} = allreduce {} as {}\n", declare(from.type), partial, type);
    } else {
      const Layout target = random_type();
      statements_ += fmt::format("  {} = redistribute {} as {}\n", declare(target), partial, text_of(target));
    }
  }

  // A call of a function that perhaps calls another one, keeps one argument and gives one back.
  void call() {
    const Value first = random_.pick(values_);
    const Value second = like(first);
    const Layout type = random_type();
    const std::string name = fmt::format("function{}", values_.size());
    const std::string from = text_of(first.type);
    const std::string to = text_of(type);
    const std::string kept = random_.pick<std::string>({"p", "o"});
    functions_ += fmt::format("fn {}(p : {}, o : {}) -> {}, {} {{\n  q = redistribute p as {}\n  return q, {}\n}}\n",
                              name, from, from, to, from, to, kept);
    functions_ += fmt::format(
        "fn {0}_twice(p : {1}, o : {1}) -> {1}, {2}, {1} {{\n  a, b = {0}(o, p)\n"
        "  c, d = {0}(b, b)\n  return d, c, b\n}}\n",
        name, from, to);
    const bool once = random_.number(2) == 0;
    const std::string results =
        once ? declare(type) + ", " + declare(first.type)
             : fmt::format("{}, {}, {}", declare(first.type), declare(type), declare(first.type));
    statements_ += fmt::format("  {} = {}{}({}, {})\n", results, name, once ? "" : "_twice", first.name, second.name);
  }

  RandomProblems random_;
  Mesh mesh_;
  std::string element_;
  bool divides_;  // whether all types divide the arrays
  Shape shape_;
  std::vector<Value> values_;
  std::string functions_;
  std::string statements_;
};

}  // namespace

std::string random_program(std::uint32_t seed) { return ProgramWriter(seed).write(); }

bool divides_everywhere(std::uint32_t seed) { return ProgramWriter(seed).divides(); }

}  // namespace retile::test
