// MLIR's shardings in the mesh dialect, which later became the shard dialect.
//
//   mesh.sharding @mesh split_axes = [[0], [1, 2]] partial = sum [3] : !mesh.sharding    as an operation, or
//   #mesh.sharding<@mesh, [[0], [1, 2]], partial = sum[3]>                               as an attribute
//   mesh.mesh @mesh(shape = 2x4)    shard.grid @grid(shape = 2x4)                        axes are numbered
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

constexpr std::string_view mlir_mesh_example = "'mesh.mesh @mesh(shape = 2x4)' or --mesh x=2,y=4";

class MlirScanner {
 public:
  MlirScanner(Scanner& scanner, const Shape& shape, const std::optional<PlacedMesh>& mesh)
      : scanner_(scanner), shape_(shape), given_(mesh) {}

  Layout scan() {
    const PlacedMesh& mesh = scanner_.accept("#") ? scan_attribute() : scan_operation();
    scanner_.expect_end("the sharding");
    require_even();
    return make_layout(scanner_, mesh, shape_, cuts_);
  }

 private:
  // '#' dialect '.' name '<' '@' name ',' axes { ',' field } '>'
  const PlacedMesh& scan_attribute() {
    skip_dialect();
    scanner_.expect("<", "at the start of a sharding");
    const PlacedMesh& mesh = scan_mesh();
    scanner_.expect(",", "after the mesh of a sharding");
    scan_split_axes(mesh.mesh);
    while (scanner_.accept(",")) scan_field(mesh.mesh);
    scanner_.expect(">", "or ',' after the axes of a sharding");
    return mesh;
  }

  // [ '%' name '=' ] dialect '.' 'sharding' '@' name 'split_axes' '=' axes { field } [ ':' '!' dialect '.' 'sharding' ]
  const PlacedMesh& scan_operation() {
    if (scanner_.accept("%")) {
      if (scanner_.looking_at_digit()) {
        scanner_.index("a value's name");
      } else {
        scanner_.name("a value's name");
      }
      scanner_.expect("=", "after a value");
    }
    skip_dialect();
    const PlacedMesh& mesh = scan_mesh();
    scanner_.expect_word("split_axes", "after the mesh");
    scanner_.expect("=", "after 'split_axes'");
    scan_split_axes(mesh.mesh);
    while (scanner_.looking_at_name()) scan_field(mesh.mesh);
    if (scanner_.accept(":")) {
      scanner_.expect("!", "before the type");
      skip_dialect();
    }
    return mesh;
  }

  void skip_dialect() {
    if (!scanner_.accept_word("mesh")) scanner_.expect_word("shard", "or 'mesh', the dialect");
    scanner_.expect(".", "after the dialect");
    if (!scanner_.accept_word("shard")) scanner_.expect_word("sharding", "after the dialect");
  }

  const PlacedMesh& scan_mesh() {
    scanner_.expect("@", "before the name of a mesh");
    const std::size_t begin = scanner_.last().begin;
    const std::string symbol = scanner_.name("the name of a mesh");
    return require_mesh(given_, scanner_, {begin, scanner_.last().end}, symbol, mlir_mesh_example);
  }

  // '[' [ numbers { ',' numbers } ] ']'
  void scan_split_axes(const Mesh& mesh) {
    scanner_.expect("[", "before the axes of the dimensions");
    while (!scanner_.accept("]")) {
      if (!cuts_.dimensions.empty()) scanner_.expect(",", "or ']' after the axes of a dimension");
      const std::size_t entry = scanner_.next_position();
      cuts_.dimensions.push_back(scan_axes(mesh));
      require_rank(scanner_, {entry, scanner_.last().end}, cuts_.dimensions.size(), shape_);
    }
  }

  std::vector<AxisText> scan_axes(const Mesh& mesh) {
    std::vector<AxisText> axes;
    scanner_.expect("[", "before the axes of a dimension");
    while (!scanner_.accept("]")) {
      if (!axes.empty()) scanner_.expect(",", "or ']' after an axis");
      const std::int64_t axis = scanner_.index("the number of an axis");
      if (axis >= mesh.axis_count()) {
        scanner_.fail(scanner_.last(), fmt::format("there is no axis {}: the mesh has {}", axis, mesh.axis_count()),
                      "axes count from 0");
      }
      axes.push_back({mesh.whole(static_cast<int>(axis)), scanner_.last()});
    }
    return axes;
  }

  void scan_field(const Mesh& mesh) {
    const std::string field = scanner_.name("a field");
    if (field == "halo_sizes" || field == "sharded_dims_offsets" || field == "sharded_dims_sizes") {
      scanner_.fail(scanner_.last(), fmt::format("{} are not read", field),
                    "list the boxes of each device instead, as in '[8, 4] boxes {...}'");
    }
    if (field != "partial") fail_at_field(scanner_, "a sharding", field, {"partial"});
    scanner_.expect("=", "after 'partial'");
    cuts_.reduction = scan_reduction(scanner_);
    cuts_.partial = scan_axes(mesh);
  }

  // Checks that sizes divide. MLIR says what becomes of a remainder only by offsets, which are not read.
  void require_even() const {
    for (std::size_t i = 0; i < cuts_.dimensions.size(); ++i) {
      std::int64_t size = shape_[i];
      for (const AxisText& axis : cuts_.dimensions[i]) {
        if (size % axis.part.size != 0) {
          scanner_.fail(axis.place,
                        fmt::format("dimension {} of {} does not divide into tiles along these axes", i, shape_[i]));
        }
        size /= axis.part.size;
      }
    }
  }

  Scanner& scanner_;
  const Shape& shape_;
  const std::optional<PlacedMesh>& given_;
  CutsText cuts_;
};

std::string axes_text(const std::vector<AxisPart>& parts) {
  std::vector<int> axes;
  for (const AxisPart& part : parts) axes.push_back(part.axis);
  return fmt::format("[{}]", fmt::join(axes, ", "));
}

void require_even(const Layout& layout) {
  const MeshLayout cuts = *layout.cuts();
  for (const std::vector<Factor>& factors : cuts.view) {
    if (factors[0].size % tile_count(factors[0].axes) == 0) continue;
    throw InputError("MLIR cannot say tiles of different sizes", "without offsets, sizes must divide");
  }
}

}  // namespace

// ('mesh.mesh' | 'shard.grid') '@' name '(' 'shape' '=' size { 'x' size } ')'
PlacedMesh scan_mlir_mesh(Scanner& scanner) {
  const std::size_t begin = scanner.next_position();
  if (!scanner.accept("mesh.mesh")) scanner.expect("shard.grid", "at the start of a mesh");
  scanner.expect("@", "before the name of a mesh");
  std::string symbol = scanner.name("the name of a mesh");
  scanner.expect("(", "after the name of a mesh");
  scanner.expect_word("shape", "in a mesh");
  scanner.expect("=", "after 'shape'");
  std::vector<Axis> axes;
  do {
    axes.push_back({fmt::format("axis{}", axes.size()), scanner.size("the size of an axis")});
  } while (scanner.accept("x"));
  scanner.expect(")", "or 'x' and another size");
  PlacedMesh mesh = place_mesh(scanner, {begin, scanner.last().end}, std::move(axes), {});
  mesh.symbol = std::move(symbol);
  return mesh;
}

Layout parse_mlir(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  Scanner scanner(text);
  return MlirScanner(scanner, shape, mesh).scan();
}

NotationText to_mlir(const Layout& layout) {
  const PlainCuts cuts = plain_cuts(layout, "MLIR");
  require_whole_axes(cuts, "MLIR");
  require_even(layout);
  if (!cuts.devices.empty()) throw InputError("MLIR cannot say an order of devices", "its meshes number them from 0");
  if (cuts.mesh.axis_count() == 0) throw InputError("MLIR cannot say a mesh without axes", {});
  std::vector<std::int64_t> sizes;
  for (const Axis& axis : cuts.mesh.axes()) sizes.push_back(axis.size);
  std::vector<std::string> dimensions;
  for (const std::vector<AxisPart>& axes : cuts.dimensions) dimensions.push_back(axes_text(axes));
  const std::string partial =
      cuts.is_partial() ? fmt::format(" partial = {} {}", name_of(cuts.reduction), axes_text(cuts.partial)) : "";
  return {
      fmt::format("mesh.mesh @mesh(shape = {})", fmt::join(sizes, "x")),
      fmt::format("mesh.sharding @mesh split_axes = [{}]{} : !mesh.sharding", fmt::join(dimensions, ", "), partial)};
}

}  // namespace retile::interchange
