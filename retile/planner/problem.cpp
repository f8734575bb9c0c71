#include "retile/planner/problem.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/json.h"
#include "retile/types/json.h"
#include "retile/types/text.h"

namespace retile {
namespace {

using Json = nlohmann::ordered_json;

// An axis by its name, a part of one as in a type's text. An axis that is called like a part is told from it by a
// space.
std::string axis_text(const Mesh& mesh, const AxisPart& part) {
  if (part == mesh.whole(part.axis)) return mesh.axis(part.axis).name;
  std::string text = to_string(mesh, part);
  while (mesh.find_axis(text)) text.insert(0, " ");
  return text;
}

Json axes_of(const DistributedType& type) {
  Json dimensions = Json::array();
  for (const Dimension& dimension : type.dimensions()) {
    Json& axes = dimensions.emplace_back(Json::array());
    for (const AxisPart& part : dimension.axes) axes.push_back(axis_text(type.mesh(), part));
  }
  return dimensions;
}

}  // namespace

std::optional<Fault> Problem::find_fault(const DistributedType& source, const DistributedType& target) {
  if (source.mesh() != target.mesh()) return Fault{"source and target are on different meshes", {}};
  if (source.rank() != target.rank()) {
    return Fault{fmt::format("the source has rank {} and the target rank {}", source.rank(), target.rank()),
                 "a redistribution keeps the global shape"};
  }
  if (source.global_shape() != target.global_shape()) {
    return Fault{fmt::format("the source has global shape {} and the target {}", to_string(source.global_shape()),
                             to_string(target.global_shape())),
                 "a redistribution keeps the global shape"};
  }
  return std::nullopt;
}

Problem::Problem(std::string id, DistributedType source, DistributedType target, ElementType element_type)
    : id_(std::move(id)), source_(std::move(source)), target_(std::move(target)), element_type_(element_type) {
  if (auto fault = find_fault(source_, target_)) throw InputError(std::move(fault->message), std::move(fault->hint));
}

Problem parse_problem(const SourceText& line) {
  const JsonValue root = parse_json(line);
  const JsonReader reader(line, root, "the problem");
  reader.require_format();
  const Mesh mesh = read_mesh(reader.member("mesh"));
  const JsonReader shape = reader.member("shape");
  DistributedType source = read_type_by_axes(shape, reader.member("src"), mesh);
  DistributedType target = read_type_by_axes(shape, reader.member("dst"), mesh);
  ElementType element_type = ElementType::f32;
  if (reader.has("dtype")) {
    const JsonReader dtype = reader.member("dtype");
    const auto found = find_element_type(dtype.string());
    if (!found)
      dtype.fail(fmt::format("unknown element type \"{}\"", dtype.string()),
                 fmt::format("use one of {}", element_type_names));
    element_type = *found;
  }
  std::string id = reader.has("id") ? reader.member("id").string() : fmt::format("line-{}", line.first_line);
  return {std::move(id), std::move(source), std::move(target), element_type};
}

Problem parse_problem(const SourceText& mesh_text, const SourceText& source_text, const SourceText& target_text,
                      ElementType element_type) {
  const Mesh mesh = parse_mesh(mesh_text);
  DistributedType source = parse_type(source_text, mesh);
  DistributedType target = parse_type(target_text, mesh);
  if (auto fault = Problem::find_fault(source, target)) {
    throw InputError(
        diagnose(target_text, {0, target_text.text.size()}, std::move(fault->message), std::move(fault->hint)));
  }
  return {{}, std::move(source), std::move(target), element_type};
}

std::string to_json(const Problem& problem) {
  Json json;
  json["format"] = json_format;
  json["id"] = problem.id();
  json["mesh"] = Json::object();
  for (const Axis& axis : problem.mesh().axes()) json["mesh"][axis.name] = axis.size;
  json["shape"] = problem.source().global_shape();
  json["src"] = axes_of(problem.source());
  json["dst"] = axes_of(problem.target());
  json["dtype"] = name_of(problem.element_type());
  // An id may come from anywhere: what is not UTF-8 in it is replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_string(const Problem& problem) {
  return fmt::format("{}{}{} on mesh {} from {} to {}", problem.id(), problem.id().empty() ? "" : ": ",
                     name_of(problem.element_type()), to_string(problem.mesh()), to_string(problem.source()),
                     to_string(problem.target()));
}

}  // namespace retile
