// Layouts: which boxes of an array each device of a world holds, however that is said.
//
// A type says it where everything divides. Beyond types, a layout may be cut unevenly, see a dimension as a product of
// factors, live on some devices of a world in any order, hold parts of a sum, or be listed box by box.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/box.h"
#include "retile/types/distributed_type.h"
#include "retile/types/mesh.h"
#include "retile/types/placement.h"

namespace retile {

// How a dimension is cut whose size its tiles do not divide.
enum class UnevenRule {
  ceiling,   // tiles of ⌈n/k⌉, the last ones shorter or empty (XLA)
  nested,    // so for each axis by itself, from major to minor (DTensor)
  balanced,  // n mod k tiles are one longer (NumPy's array_split)
};

const char* name_of(UnevenRule rule);
std::optional<UnevenRule> find_uneven_rule(std::string_view name);
constexpr std::string_view uneven_rule_names = "ceil, nested, balanced";

// What the parts of a value make up together.
enum class Reduction { sum, max, min };

const char* name_of(Reduction reduction);
std::optional<Reduction> find_reduction(std::string_view name);
constexpr std::string_view reduction_names = "sum, max, min";

// A factor of a dimension's size, cut along axes by itself.
struct Factor {
  std::int64_t size = 1;
  std::vector<AxisPart> axes;  // minor to major

  bool operator==(const Factor&) const = default;
};

// The factors of each dimension, major to minor: their product is the dimension's size.
using View = std::vector<std::vector<Factor>>;

// Cut along the axes of a mesh.
struct MeshLayout {
  Mesh mesh;
  View view;  // one factor for each dimension that is cut as a whole
  UnevenRule rule = UnevenRule::ceiling;
  std::vector<AxisPart> partial;  // axes whose devices' values make up the array's together; in the mesh's order
  Reduction reduction = Reduction::sum;
  std::vector<Device> devices;  // of the world, in row-major order of the mesh; none: 0, 1, 2, …

  bool operator==(const MeshLayout&) const = default;
};

// Listed: the boxes of each device of the world, perhaps none. They lie in memory one after the other, row-major.
struct BoxLayout {
  Shape shape;
  std::vector<std::vector<Box>> boxes;

  bool operator==(const BoxLayout&) const = default;
};

// Of more devices, boxes are not listed: each takes memory.
constexpr std::int64_t most_listed_world = std::int64_t{1} << 20U;

// Well-formed by construction. Sizes may be 0: an empty array.
class Layout {
 public:
  // NOLINTNEXTLINE(*-explicit-*): a type is a layout
  Layout(DistributedType type) : form_(std::move(type)) {}
  // What a type can say becomes one. Throw InputError where find_fault() finds one.
  explicit Layout(MeshLayout layout);
  explicit Layout(BoxLayout layout);

  struct MeshFault {
    int dimension = -1;  // -1: the layout as a whole
    int factor = -1;     // index into the dimension's factors; -1: the dimension as a whole
    int axis = -1;    // index into the factor's axes; -1: the factor as a whole. Of the partial axes: dimension is -1
    int device = -1;  // index into the listed devices; -1: none of them
    Fault fault;
  };
  static std::optional<MeshFault> find_fault(const MeshLayout& layout);

  struct BoxFault {
    int device = -1;  // -1: the layout as a whole
    int box = -1;     // index into the device's boxes
    Fault fault;
  };
  static std::optional<BoxFault> find_fault(const BoxLayout& layout);

  // Null where it is of another form.
  const DistributedType* type() const { return std::get_if<DistributedType>(&form_); }
  const BoxLayout* listed() const { return std::get_if<BoxLayout>(&form_); }
  // As cut along axes; a type too. Nothing where boxes are listed.
  std::optional<MeshLayout> cuts() const;
  // Whether devices hold parts of a sum or the like.
  bool is_partial() const { return !partial().empty(); }
  // The axes along which they differ.
  const std::vector<AxisPart>& partial() const;
  // The parts of a partial layout side by side: a dimension in front for each of its axes, major to minor, which the
  // axis cuts. Any other layout as it is.
  Layout stacked() const;

  Shape global_shape() const;
  int rank() const { return static_cast<int>(global_shape().size()); }
  // Elements of the device that holds the most.
  std::int64_t local_size() const;
  // The smallest world that it fits in.
  std::int64_t device_count() const;
  // What the devices of a world of so many hold; of a partial layout, of the stacked parts.
  Placement placement(std::int64_t world) const;
  Placement placement() const { return placement(device_count()); }

  bool operator==(const Layout& other) const = default;

 private:
  std::variant<DistributedType, MeshLayout, BoxLayout> form_;
};

// The tile with this coordinate along the axes together, by the rule. No tile is larger than the first.
Interval cut_interval(std::int64_t size, const std::vector<AxisPart>& axes, UnevenRule rule, std::int64_t coordinate);

// The device's coordinate along the axes together, given minor to major.
std::int64_t coordinate_along(const Mesh& mesh, const std::vector<AxisPart>& axes, Device device);

// Whether the two rules cut the factor alike.
bool same_tiles(const Factor& factor, UnevenRule a, UnevenRule b);

// How many tiles the axes make.
std::int64_t tile_count(const std::vector<AxisPart>& axes);

// Boxes of an array whose dimensions are cut into factors (major to minor), as parts of the array as it is. No view:
// the same placement.
Placement without_view(const Placement& placement, const std::vector<Shape>& view);
// The other way round: nothing where some device's parts are no box in the view.
std::optional<Placement> with_view(const Placement& placement, const std::vector<Shape>& view);

std::string to_string(const Layout& layout);
// The same with its mesh: "[8{b}16, 16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest".
std::string describe(const Layout& layout);

// The whole text is one layout. Throws InputError. Types are layouts; beyond them:
//
//   [9{x}17, 23]              tiles of 9 and 8: the rule is that of ceilings unless it is named
//   [2{y,x}5] nested          or balanced
//   [3*4{x}16*128, 4096]      a dimension of 3 x 16 x 128, cut in its second factor
//   [8, 16] sum {x}           or max, min: the devices along x hold parts of it
//   [8{x}32] on [3, 2, 1, 0]  on these devices of the world, in the order of the mesh
//   [8, 4] boxes {[0:4, 0:4] [6:8, 0:4]; ; [4:6, 0:4]}    device by device
Layout parse_layout(const SourceText& source, const Mesh& mesh);
Layout parse_layout(std::string_view text, const Mesh& mesh);

// " sum {x}"; nothing where there are no axes.
std::string partial_text(const Mesh& mesh, Reduction reduction, const std::vector<AxisPart>& axes);

}  // namespace retile
