#include "retile/planner/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/input_errors.h"
#include "retile/planner/problem_json.h"
#include "retile/types/json.h"
#include "retile/types/text.h"

namespace retile {
namespace {

using Json = nlohmann::ordered_json;

// An axis by its name, or a part of one as in a type's text. Where an axis has the name that a part would print as, a
// space in the part's text tells them apart.
std::string axis_text(const Mesh& mesh, const AxisPart& part) {
  if (part == mesh.whole(part.axis)) return mesh.axis(part.axis).name;
  std::string text = to_string(mesh, part);
  while (mesh.find_axis(text)) text.insert(0, " ");
  return text;
}

// --- Layouts as JSON.

Json mesh_json(const Mesh& mesh) {
  Json json = Json::object();
  for (const Axis& axis : mesh.axes()) json[axis.name] = axis.size;
  return json;
}

Json names_of(const Mesh& mesh, const std::vector<AxisPart>& parts) {
  Json names = Json::array();
  for (const AxisPart& part : parts) names.push_back(axis_text(mesh, part));
  return names;
}

Json boxes_json(const BoxLayout& layout) {
  Json devices = Json::array();
  for (const std::vector<Box>& boxes : layout.boxes) {
    Json& list = devices.emplace_back(Json::array());
    for (const Box& box : boxes) list.push_back({box.lo, box.hi});
  }
  return devices;
}

// Writes a list with an entry for each dimension, null where nothing is said of it; writes no list where nothing is
// said of any.
template <typename Said, typename Value>
void write_dimensions(Json& json, const std::string& key, std::size_t rank, Said said, Value value) {
  Json list = Json::array();
  bool is_said = false;
  for (std::size_t i = 0; i < rank; ++i) {
    list.push_back(said(i) ? Json(value(i)) : Json());
    is_said = is_said || said(i);
  }
  if (is_said) json[key] = std::move(list);
}

// Writes the blocks that are dealt out, and the tiles that are listed.
void write_lists(Json& json, const std::string& side, const View& view) {
  const auto factor = [&](std::size_t i) -> const Factor& { return view[i][0]; };
  write_dimensions(
      json, side + "_cyclic", view.size(), [&](std::size_t i) { return factor(i).block > 0; },
      [&](std::size_t i) {
        return factor(i).first == 0 ? Json(factor(i).block) : Json({factor(i).block, factor(i).first});
      });
  write_dimensions(
      json, side + "_tiles", view.size(), [&](std::size_t i) { return !factor(i).tiles.empty(); },
      [&](std::size_t i) { return factor(i).tiles; });
}

void write_tiles(Json& json, const std::string& side, const std::vector<Halo>& halo, const std::vector<int>& order) {
  Json widths = Json::array();
  Json wraps = Json::array();
  for (const Halo& one : halo) {
    widths.push_back({one.before, one.after});
    wraps.push_back(one.wraps);
  }
  if (!halo.empty()) json[side + "_halo"] = std::move(widths);
  if (std::any_of(halo.begin(), halo.end(), [](const Halo& one) { return one.wraps; })) {
    json[side + "_wrap"] = std::move(wraps);
  }
  if (!order.empty()) json[side + "_order"] = order;
}

// Writes the keys of one side, "src" or "dst".
void write_layout(Json& json, const std::string& side, const Layout& layout) {
  if (const BoxLayout* boxes = layout.listed()) {
    json[side + "_boxes"] = boxes_json(*boxes);
    write_tiles(json, side, boxes->halo, boxes->order);
    return;
  }
  const MeshLayout cuts = *layout.cuts();
  Json axes = Json::array();
  Json view = Json::array();
  bool is_viewed = false;
  for (const std::vector<Factor>& factors : cuts.view) {
    Json& sizes = view.emplace_back(Json::array());
    is_viewed = is_viewed || factors.size() != 1;
    for (const Factor& factor : factors) {
      axes.push_back(names_of(cuts.mesh, factor.axes));
      sizes.push_back(factor.size);
    }
  }
  json[side] = axes;
  if (is_viewed) json[side + "_view"] = view;
  if (!cuts.partial.empty()) {
    json[side + "_sum"] = names_of(cuts.mesh, cuts.partial);
    if (cuts.reduction != Reduction::sum) json["reduce"] = name_of(cuts.reduction);
  }
  if (!cuts.devices.empty()) json[side + "_devices"] = cuts.devices;
  write_lists(json, side, cuts.view);
  write_tiles(json, side, cuts.halo, cuts.order);
}

void write_meshes(Json& json, const Layout& source, const Layout& target) {
  const std::optional<MeshLayout> from = source.cuts();
  const std::optional<MeshLayout> to = target.cuts();
  if (from) json["mesh"] = mesh_json(from->mesh);
  if (to && (!from || from->mesh != to->mesh)) json[from ? "dst_mesh" : "mesh"] = mesh_json(to->mesh);
}

void write_rules(Json& json, const Layout& source, const Layout& target) {
  const auto rule_of = [](const Layout& layout) {
    const auto cuts = layout.cuts();
    return cuts ? cuts->rule : UnevenRule::ceiling;
  };
  const UnevenRule from = rule_of(source);
  const UnevenRule to = rule_of(target);
  if (from == UnevenRule::ceiling && to == UnevenRule::ceiling) return;
  if (from == to) {
    json["uneven"] = name_of(from);
  } else {
    json["uneven"] = {{"src", name_of(from)}, {"dst", name_of(to)}};
  }
}

// --- Layouts from JSON.

// Reads a problem's layouts, and adds what is wrong to the faults.
class LayoutReader {
 public:
  LayoutReader(const JsonReader& problem, const LayoutTextReader& read_text, InputFaults& faults)
      : problem_(problem), read_text_(read_text), faults_(faults) {}

  std::optional<Layout> read_source() const { return read_side("src", "mesh"); }
  std::optional<Layout> read_target() const { return read_side("dst", problem_.has("dst_mesh") ? "dst_mesh" : "mesh"); }

 private:
  std::optional<JsonReader> find(const std::string& key) const {
    return problem_.has(key) ? std::optional(problem_.member(key)) : std::nullopt;
  }

  std::optional<JsonReader> require(const std::string& key) const {
    faults_.attempt([&] { problem_.member(key); });
    return find(key);
  }

  std::optional<Mesh> read_mesh_of(const std::string& key) const {
    std::optional<Mesh> mesh;
    const auto reader = require(key);
    if (reader) faults_.attempt([&] { mesh = read_mesh(*reader); });
    return mesh;
  }

  UnevenRule rule_of(const std::string& side) const {
    const auto rule = find("uneven");
    if (!rule) return UnevenRule::ceiling;
    if (rule->value().as<JsonObject>() == nullptr) return read_uneven_rule(*rule);
    return rule->has(side) ? read_uneven_rule(rule->member(side)) : UnevenRule::ceiling;
  }

  Reduction reduction() const {
    const auto reduce = find("reduce");
    return reduce ? read_reduction(*reduce) : Reduction::sum;
  }

  bool is_text(const std::string& side) const {
    return read_text_ && problem_.has(side) && problem_.member(side).value().as<std::string>() != nullptr;
  }

  std::optional<Layout> read_side(const std::string& side, const std::string& mesh_key) const {
    if (is_text(side)) {
      std::optional<Layout> layout;
      faults_.attempt([&] { layout = read_text_(problem_, side, mesh_key); });
      return layout;
    }
    const auto shape = require("shape");
    const auto boxes = find(side + "_boxes");
    const auto mesh = boxes ? std::nullopt : read_mesh_of(mesh_key);
    const auto axes = boxes ? std::nullopt : require(side);
    const auto view = find(side + "_view");
    const auto partial = find(side + "_sum");
    const auto devices = find(side + "_devices");
    const auto cyclic = find(side + "_cyclic");
    const auto tiles = find(side + "_tiles");
    const auto halo = find(side + "_halo");
    const auto wrap = find(side + "_wrap");
    const auto order = find(side + "_order");
    UnevenRule rule = UnevenRule::ceiling;
    faults_.attempt([&] { rule = rule_of(side); });
    Reduction op = Reduction::sum;
    faults_.attempt([&] { op = reduction(); });
    const auto pointer = [](const auto& optional) { return optional ? &*optional : nullptr; };
    return read_layout({pointer(shape), pointer(axes), pointer(view), pointer(partial), pointer(devices),
                        pointer(boxes), pointer(cyclic), pointer(tiles), pointer(halo), pointer(wrap), pointer(order)},
                       pointer(mesh), rule, op, faults_);
  }

  const JsonReader& problem_;
  const LayoutTextReader& read_text_;
  InputFaults& faults_;
};

Fault world_fault(std::int64_t world, std::int64_t devices, const char* other) {
  return {fmt::format("the world has {} devices, and the {} needs {}", world, other, devices),
          "listed boxes have an entry for each device of the world, [] where it holds nothing"};
}

Fault special_target_fault(const Layout& source) {
  const char* op = name_of(source.cuts()->reduction);
  return {fmt::format("a {} goes to tiles that are cut by a rule, row-major and without halo", op),
          fmt::format("redistribute the {} first, then to this layout", op)};
}

// Checks that the sum that the target asks for is there in the source.
std::optional<Fault> find_partial_fault(const Layout& source, const Layout& target, ElementType element_type) {
  if (source.is_partial() && !can_be_combined(element_type)) {
    return Fault{fmt::format("parts of {} cannot be combined", name_of(element_type)),
                 fmt::format("retile combines {}", combined_element_type_names)};
  }
  if (source.is_partial() && source.cuts()->reduction != Reduction::sum && is_complex(element_type)) {
    return Fault{fmt::format("complex numbers have no {}", name_of(source.cuts()->reduction)), {}};
  }
  std::optional<std::int64_t> elements = checked_product(source.global_shape());
  for (const AxisPart& part : source.partial()) {
    elements = elements ? checked_multiply(*elements, part.size) : std::nullopt;
  }
  if (!elements) {
    return Fault{fmt::format("the parts of the {} together do not fit in 63 bits", name_of(source.cuts()->reduction)),
                 {}};
  }
  const bool has_plain_boxes = target.listed() != nullptr && target.halo().empty() && target.order().empty();
  if (source.is_partial() && !target.is_plain() && !has_plain_boxes) return special_target_fault(source);
  if (!target.is_partial()) return std::nullopt;
  const MeshLayout wanted = *target.cuts();
  const std::string op = name_of(wanted.reduction);
  if (!source.is_partial() || source.cuts()->reduction != wanted.reduction || source.cuts()->mesh != wanted.mesh ||
      source.cuts()->devices != wanted.devices) {
    return Fault{fmt::format("the target is a {} that the source is not", op),
                 "a target may be the same sum over fewer axes of the source's mesh"};
  }
  const std::vector<AxisPart> held = split_into_primes(wanted.mesh, source.cuts()->partial);
  for (const AxisPart& part : wanted.partial) {
    const std::vector<AxisPart> primes = split_into_primes(wanted.mesh, std::span(&part, 1));
    const auto is_held = [&](const AxisPart& prime) {
      return std::find(held.begin(), held.end(), prime) != held.end();
    };
    if (std::all_of(primes.begin(), primes.end(), is_held)) continue;
    return Fault{fmt::format("the target is a {} over {}, and the source is not", op, to_string(wanted.mesh, part)),
                 "a target may be the same sum over fewer axes of the source's mesh"};
  }
  return std::nullopt;
}

// The same sum, over the prime parts of its axes.
Layout with_prime_parts(const Layout& layout) {
  MeshLayout cuts = *layout.cuts();
  cuts.partial = split_into_primes(cuts.mesh, cuts.partial);
  return Layout(std::move(cuts));
}

}  // namespace

std::optional<Fault> Problem::find_fault(const Layout& source, const Layout& target, ElementType element_type) {
  if (source.rank() != target.rank()) {
    return Fault{fmt::format("the source has rank {} and the target rank {}", source.rank(), target.rank()),
                 "a redistribution keeps the global shape"};
  }
  if (source.global_shape() != target.global_shape()) {
    return Fault{fmt::format("the source has global shape {} and the target {}", to_string(source.global_shape()),
                             to_string(target.global_shape())),
                 "a redistribution keeps the global shape"};
  }
  const std::int64_t from = source.device_count();
  const std::int64_t to = target.device_count();
  if (source.listed() != nullptr && (to > from || (target.listed() != nullptr && to != from))) {
    return world_fault(from, to, "target");
  }
  if (target.listed() != nullptr && from > to) return world_fault(to, from, "source");
  return find_partial_fault(source, target, element_type);
}

Problem::Problem(std::string id, Layout source, Layout target, ElementType element_type)
    : id_(std::move(id)), source_(std::move(source)), target_(std::move(target)), element_type_(element_type) {
  if (const auto fault = find_fault(source_, target_, element_type_)) throw InputError(*fault);
  const std::vector<AxisPart>& parts = source_.partial();
  const bool are_named_alike =
      std::all_of(target_.partial().begin(), target_.partial().end(),
                  [&](const AxisPart& part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); });
  if (are_named_alike) return;
  source_ = with_prime_parts(source_);
  target_ = with_prime_parts(target_);
}

std::int64_t Problem::device_count() const { return std::max(source_.device_count(), target_.device_count()); }

std::optional<TypedProblem> typed(const Problem& problem) {
  const DistributedType* source = problem.source().type();
  const DistributedType* target = problem.target().type();
  if (source == nullptr || target == nullptr || source->mesh() != target->mesh()) return std::nullopt;
  return TypedProblem(*source, *target, bytes_of(problem.element_type()));
}

TypedProblem require_typed(const Problem& problem) {
  if (const auto ends = typed(problem)) return *ends;
  throw InputError(
      fmt::format("{} and {} are not both types of one mesh", to_string(problem.source()), to_string(problem.target())),
      "sizes must divide, and dimensions be cut as a whole");
}

Problem read_problem(const JsonReader& reader, const LayoutTextReader& read_text) {
  reader.require_format();
  InputFaults faults;
  std::string id = fmt::format("line-{}", reader.source().first_line);
  faults.attempt([&] {
    if (reader.has("id")) id = reader.member("id").string();
  });
  const LayoutReader layouts(reader, read_text, faults);
  std::optional<Layout> source = layouts.read_source();
  std::optional<Layout> target = layouts.read_target();
  ElementType element_type = ElementType::f32;
  faults.attempt([&] {
    if (reader.has("dtype")) element_type = read_element_type(reader.member("dtype"));
  });
  faults.attempt([&] {
    if (!source || !target) return;
    if (const auto fault = Problem::find_fault(*source, *target, element_type)) {
      reader.fail(*fault);
    }
  });
  faults.require_none();
  return {std::move(id), *std::move(source), *std::move(target), element_type};
}

Problem parse_problem(const SourceText& line) {
  const JsonValue root = parse_json(line);
  return read_problem(JsonReader(line, root, "the problem"), nullptr);
}

Problem parse_problem(const SourceText& mesh, const SourceText& source, const SourceText& target,
                      ElementType element_type, const std::optional<SourceText>& target_mesh) {
  const Mesh from_mesh = parse_mesh(mesh);
  Layout from = parse_layout(source, from_mesh);
  Layout to = parse_layout(target, target_mesh ? parse_mesh(*target_mesh) : from_mesh);
  if (auto fault = Problem::find_fault(from, to, element_type)) {
    throw InputError(diagnose(target, {0, target.text.size()}, *fault));
  }
  return {{}, std::move(from), std::move(to), element_type};
}

std::string to_json(const Problem& problem) {
  Json json;
  json["format"] = json_format;
  json["id"] = problem.id();
  write_meshes(json, problem.source(), problem.target());
  json["shape"] = problem.source().global_shape();
  write_layout(json, "src", problem.source());
  write_layout(json, "dst", problem.target());
  write_rules(json, problem.source(), problem.target());
  json["dtype"] = name_of(problem.element_type());
  // Replaces what is not UTF-8 in an id, which may come from anywhere.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_string(const Problem& problem) {
  const auto mesh_of = [](const Layout& layout) {
    return layout.listed() != nullptr ? "" : to_string(layout.cuts()->mesh);
  };
  const std::string from = mesh_of(problem.source());
  const std::string to = mesh_of(problem.target());
  return fmt::format("{}{}{}{}{} from {} to {}{}{}", problem.id(), problem.id().empty() ? "" : ": ",
                     name_of(problem.element_type()), from.empty() ? "" : " on mesh ", from,
                     to_string(problem.source()), to_string(problem.target()),
                     to == from || to.empty() ? "" : " on mesh ", to == from ? "" : to);
}

}  // namespace retile
