#include "tests/support/layouts.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/types/text.h"

namespace retile::test {
namespace {

const std::vector<UnevenRule> rules{UnevenRule::ceiling, UnevenRule::nested, UnevenRule::balanced, UnevenRule::last};

std::vector<AxisPart> some_parts(RandomProblems& random, const Mesh& mesh) {
  if (random.number(3) == 0) return mesh.prime_parts();
  std::vector<AxisPart> axes;
  for (int i = 0; i < mesh.axis_count(); ++i) axes.push_back(mesh.whole(i));
  return axes;
}

void deal_axes(RandomProblems& random, MeshLayout& layout) {
  std::vector<Factor*> factors;
  for (std::vector<Factor>& dimension : layout.view) {
    for (Factor& factor : dimension) factors.push_back(&factor);
  }
  if (factors.empty()) return;
  const std::vector<AxisPart> parts = some_parts(random, layout.mesh);
  for (const std::int64_t index : random.permutation(parts.size())) {
    if (random.number(4) == 0) continue;
    random.pick(factors)->axes.push_back(parts[static_cast<std::size_t>(index)]);
  }
}

MeshLayout uneven_cuts(RandomProblems& random, const Mesh& mesh, const Shape& shape) {
  MeshLayout layout{mesh, {}, random.pick(rules), {}, Reduction::sum, {}};
  for (const std::int64_t size : shape) layout.view.push_back({{size, {}}});
  deal_axes(random, layout);
  return layout;
}

std::vector<Factor> random_factors(RandomProblems& random, std::int64_t size) {
  std::vector<Factor> factors;
  while (size > 1) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t divisor = 2; divisor <= size; ++divisor) {
      if (size % divisor == 0) divisors.push_back(divisor);
    }
    factors.push_back({random.pick(divisors), {}});
    size /= factors.back().size;
  }
  if (factors.empty()) factors.push_back({size, {}});
  return factors;
}

// Cuts the box in two again and again.
void split_box(RandomProblems& random, const Box& box, std::vector<Box>& boxes) {
  const std::size_t dimension = box.lo.empty() ? 0 : random.number(box.lo.size());
  const std::int64_t length = box.lo.empty() ? 0 : box.hi[dimension] - box.lo[dimension];
  if (length < 2 || random.number(5) == 0) {
    boxes.push_back(box);
    return;
  }
  std::pair<Box, Box> halves{box, box};
  const auto cut = static_cast<std::int64_t>(random.number(static_cast<std::size_t>(length - 1))) + 1;
  halves.first.hi[dimension] = halves.second.lo[dimension] = box.lo[dimension] + cut;
  split_box(random, halves.first, boxes);
  split_box(random, halves.second, boxes);
}

Mesh small_mesh(RandomProblems& random, std::int64_t most_devices) {
  std::vector<std::string> texts;
  for (const char* text :
       {"a=1", "a=2", "a=3", "a=2,b=2", "a=4", "a=5", "a=2,b=3", "a=6", "a=2,b=2,c=2", "a=4,b=2", "a=2,b=4", "a=8"}) {
    if (parse_mesh(text).device_count() <= most_devices) texts.emplace_back(text);
  }
  return parse_mesh(random.pick(texts));
}

Layout any_layout(RandomProblems& random, const Shape& shape, std::int64_t world) {
  switch (random.number(6)) {
    case 4:
    case 5:
      return any_form(random, shape, world);
    case 0:
      return scattered_layout(random, shape, world);
    case 1:
      return viewed_layout(random, small_mesh(random, world), shape);
    case 2:
      return listed_layout(random, shape, world);
    default:
      return uneven_layout(random, small_mesh(random, world), shape);
  }
}

}  // namespace

Problem problem_of(const ProblemText& text) {
  return {"", parse_layout(text.source, parse_mesh(text.source_mesh)),
          parse_layout(text.target, parse_mesh(text.target_mesh))};
}

Layout uneven_layout(RandomProblems& random, const Mesh& mesh, const Shape& shape) {
  return Layout(uneven_cuts(random, mesh, shape));
}

Layout viewed_layout(RandomProblems& random, const Mesh& mesh, const Shape& shape) {
  MeshLayout layout{mesh, {}, random.pick(rules), {}, Reduction::sum, {}};
  for (const std::int64_t size : shape) layout.view.push_back(random_factors(random, size));
  deal_axes(random, layout);
  return Layout(std::move(layout));
}

Layout scattered_layout(RandomProblems& random, const Shape& shape, std::int64_t world) {
  const Mesh mesh = small_mesh(random, world);
  MeshLayout layout = uneven_cuts(random, mesh, shape);
  layout.devices = random.permutation(static_cast<std::size_t>(world));
  layout.devices.resize(static_cast<std::size_t>(mesh.device_count()));
  return Layout(std::move(layout));
}

Layout listed_layout(RandomProblems& random, const Shape& shape, std::int64_t world) {
  BoxLayout layout{shape, std::vector<std::vector<Box>>(static_cast<std::size_t>(world))};
  std::vector<Box> boxes;
  if (product(shape) > 0) split_box(random, {Shape(shape.size()), shape}, boxes);
  for (const Box& box : boxes) {
    const std::vector<std::int64_t> devices = random.permutation(static_cast<std::size_t>(world));
    const std::size_t holders = random.number(3) > 0 ? 1 : 1 + random.number(static_cast<std::size_t>(world));
    for (std::size_t i = 0; i < holders; ++i) layout.boxes[static_cast<std::size_t>(devices[i])].push_back(box);
  }
  return Layout(std::move(layout));
}

Layout any_form(RandomProblems& random, const Shape& shape, std::int64_t world) {
  MeshLayout layout = uneven_cuts(random, small_mesh(random, world), shape);
  for (std::vector<Factor>& factors : layout.view) {
    const std::int64_t count = tile_count(factors[0].axes);
    switch (random.number(4)) {
      case 0:
        break;
      case 1:
        factors[0].tiles.assign(static_cast<std::size_t>(count), 0);
        for (std::int64_t i = 0; i < factors[0].size; ++i) ++factors[0].tiles[random.number(factors[0].tiles.size())];
        break;
      default:
        factors[0].block = static_cast<std::int64_t>(1 + random.number(4));
        factors[0].first = static_cast<std::int64_t>(random.number(static_cast<std::size_t>(count)));
    }
  }
  if (random.number(3) == 0) {
    for (const std::int64_t dimension : random.permutation(shape.size())) {
      layout.order.push_back(static_cast<int>(dimension));
    }
  }
  return Layout(std::move(layout));
}

Layout with_halo(RandomProblems& random, const Layout& layout, GhostZones ghosts) {
  std::vector<Halo> halo(layout.global_shape().size());
  for (Halo& one : halo) {
    if (random.number(3) == 0) continue;
    one = {static_cast<std::int64_t>(random.number(4)), static_cast<std::int64_t>(random.number(3)),
           ghosts == GhostZones::wrap};
  }
  if (const BoxLayout* listed = layout.listed()) {
    BoxLayout boxes = *listed;
    boxes.halo = halo;
    return Layout::find_fault(boxes) ? layout : Layout(std::move(boxes));
  }
  MeshLayout cuts = *layout.cuts();
  cuts.halo = halo;
  return Layout::find_fault(cuts) ? layout : Layout(std::move(cuts));
}

Problem any_problem(RandomProblems& random) {
  return any_problem(random, static_cast<std::int64_t>(1 + random.number(8)));
}

Problem any_problem(RandomProblems& random, std::int64_t world) {
  const Shape shape =
      random.shape(static_cast<int>(random.number(4)), {1, 2, 3, 4, 5, 6, 7, 8, 12, random.number(20) == 0 ? 0 : 9});
  Layout source = any_layout(random, shape, world);
  if (random.number(6) == 0) {
    source = with_halo(random, source, random.number(2) == 0 ? GhostZones::end : GhostZones::wrap);
  }
  while (true) {
    Layout target = any_layout(random, shape, world);
    if (random.number(3) == 0) target = with_halo(random, target, GhostZones::end);
    if (!Problem::find_fault(source, target, ElementType::f32)) return {"", std::move(source), std::move(target)};
  }
}

}  // namespace retile::test
