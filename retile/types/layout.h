// Layouts: which boxes of an array each device of a world holds.
//
// A type describes a layout where everything divides. Beyond types, a layout may be cut unevenly or dealt out in
// blocks, see a dimension as a product of factors, live on some devices of a world in any order, hold parts of a sum,
// have ghost zones or another order in memory, or be listed box by box.
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

// How a dimension is cut if its number of tiles does not divide its size.
enum class UnevenRule {
  ceiling,   // tiles of ⌈n/k⌉, the last ones shorter or empty (XLA)
  nested,    // ceilings for each axis by itself, from major to minor (DTensor)
  balanced,  // the first n mod k tiles are one longer (NumPy's array_split)
  last,      // the last n mod k tiles are one longer (2DECOMP&FFT)
};

const char* name_of(UnevenRule rule);
std::optional<UnevenRule> find_uneven_rule(std::string_view name);
constexpr std::string_view uneven_rule_names = "ceil, nested, balanced, last";

// How the parts of a value that devices hold are combined into the value.
enum class Reduction { sum, max, min };

const char* name_of(Reduction reduction);
std::optional<Reduction> find_reduction(std::string_view name);
constexpr std::string_view reduction_names = "sum, max, min";

// A factor of a dimension's size, cut along axes by itself.
struct Factor {
  std::int64_t size = 1;
  std::vector<AxisPart> axes;  // minor to major
  // Block-cyclic where `block` is not 0: blocks of this many elements go to the devices along the axes in turn, the
  // first one to device `first`. The last block may be shorter.
  std::int64_t block = 0;
  std::int64_t first = 0;
  std::vector<std::int64_t> tiles = {};  // sizes of the tiles along the axes; none: by the layout's rule

  bool operator==(const Factor&) const = default;
};

// The ghost zones of a dimension: elements that every tile has before and after its own. At the array's ends there are
// none, unless they wrap: then they are the elements at the other end. An empty tile has no ghost zones.
struct Halo {
  std::int64_t before = 0;
  std::int64_t after = 0;
  bool wraps = false;

  bool operator==(const Halo&) const = default;
};

// The factors of each dimension, major to minor: their product is the dimension's size.
using View = std::vector<std::vector<Factor>>;

// A layout that is cut along the axes of a mesh.
struct MeshLayout {
  Mesh mesh;
  View view;  // a dimension that is cut as a whole has one factor
  UnevenRule rule = UnevenRule::ceiling;
  std::vector<AxisPart> partial;  // axes along which devices hold parts of a sum or the like; in the mesh's order
  Reduction reduction = Reduction::sum;
  std::vector<Device> devices;  // of the world, in row-major order of the mesh; none: 0, 1, 2, …
  std::vector<Halo> halo = {};  // by dimension; none: no ghost zones
  std::vector<int> order = {};  // dimensions of a tile in memory, outermost first; none: 0, 1, 2, …

  bool operator==(const MeshLayout&) const = default;
};

// A layout as a list: the boxes of each device of the world, perhaps none. A device's boxes lie in memory one after the
// other, row-major unless `order` is given.
struct BoxLayout {
  Shape shape;
  std::vector<std::vector<Box>> boxes;
  std::vector<Halo> halo = {};  // as in MeshLayout, around the only box of each device
  std::vector<int> order = {};

  bool operator==(const BoxLayout&) const = default;
};

// The largest world whose boxes are listed: each box takes memory.
constexpr std::int64_t most_listed_world = std::int64_t{1} << 20U;

// The array that a movement is of. Where a target's halo wraps, this array is larger than that of its ends: it
// continues periodically beyond them, and a device that holds an element also holds its repetitions there, in the same
// memory. Its dimensions may be seen in factors, of which the outermost may reach beyond the end.
struct MovedArray {
  std::vector<Halo> margins;  // by dimension, how far it continues beyond each end; none: nowhere
  std::vector<Shape> view;    // factors of each dimension, major to minor; none: one for each
};

// A layout of any form, well-formed by construction. Sizes may be 0: an empty array.
class Layout {
 public:
  // NOLINTNEXTLINE(*-explicit-*): a type is a layout
  Layout(DistributedType type) : form_(std::move(type)) {}
  // These keep a layout that a type can describe as a type. They throw InputError where find_fault() finds a fault.
  explicit Layout(MeshLayout layout);
  explicit Layout(BoxLayout layout);

  struct MeshFault {
    int dimension = -1;  // -1: the layout as a whole
    int factor = -1;     // index into the dimension's factors; -1: the dimension as a whole
    int axis = -1;  // index into the factor's axes; -1: the factor as a whole. With dimension -1: into the partial axes
    int device = -1;  // index into the listed devices; -1: none of them
    Fault fault;
    bool is_of_order = false;  // the fault is in the order of dimensions
  };
  static std::optional<MeshFault> find_fault(const MeshLayout& layout);

  struct BoxFault {
    int device = -1;  // -1: the layout as a whole
    int box = -1;     // index into the device's boxes
    Fault fault;
    int dimension = -1;        // whose halo is at fault; -1: none
    bool is_of_order = false;  // the fault is in the order of dimensions
  };
  static std::optional<BoxFault> find_fault(const BoxLayout& layout);

  // The layout as a type, or as a list of boxes; null where it has another form.
  const DistributedType* type() const { return std::get_if<DistributedType>(&form_); }
  const BoxLayout* listed() const { return std::get_if<BoxLayout>(&form_); }
  // The layout as axis cuts, types included; nothing where boxes are listed.
  std::optional<MeshLayout> cuts() const;
  // Whether devices hold parts of a sum or the like.
  bool is_partial() const { return !partial().empty(); }
  // The axes along which devices hold parts of a sum or the like; empty where the layout is not partial.
  const std::vector<AxisPart>& partial() const;
  // The ghost zones by dimension; empty where there are none.
  const std::vector<Halo>& halo() const;
  // The dimensions of a tile in memory, outermost first; empty where tiles are row-major.
  const std::vector<int>& order() const;
  // Whether tiles follow from mesh, view and rule alone: row-major, without ghost zones, not block-cyclic and not
  // listed.
  bool is_plain() const;
  // The parts of a partial layout side by side: for each partial axis, major to minor, a dimension is put in front,
  // which that axis cuts. A layout that is not partial is returned as it is.
  Layout stacked() const;

  Shape global_shape() const;
  int rank() const { return static_cast<int>(global_shape().size()); }
  // The number of elements on the device that holds the most.
  std::int64_t local_size() const;
  // The shape of a device's own array, ghost zones included: a row-major array without gaps, whose dimensions are in
  // the order of memory. Block-cyclic tiles and wrapped halos are one array, of several boxes. Listed boxes lie one
  // after the other: several of them have one dimension together. Zeros where the device holds nothing.
  Shape local_shape(Device device) const;
  // The number of devices in the smallest world that the layout fits in.
  std::int64_t device_count() const;
  // The boxes that each of `world` devices holds; for a partial layout, boxes of stacked().
  Placement placement(std::int64_t world) const;
  Placement placement() const { return placement(device_count()); }
  // The placement as boxes of the moved array.
  Placement placement(std::int64_t world, const MovedArray& array) const;
  // The placement of a source: without ghost zones, which may be out of date. Their memory is counted, and parts lie in
  // it as in placement().
  Placement inside(std::int64_t world, const MovedArray& array = {}) const;

  bool operator==(const Layout& other) const = default;

 private:
  enum class Ghosts { included, left_out };
  Placement placement(std::int64_t world, const MovedArray& array, Ghosts ghosts) const;

  std::variant<DistributedType, MeshLayout, BoxLayout> form_;
};

// The shape of the array whose dimensions are split into these factors.
Shape global_shape(const View& view);

// The tile with this coordinate along the axes together, by the rule.
Interval cut_interval(std::int64_t size, const std::vector<AxisPart>& axes, UnevenRule rule, std::int64_t coordinate);

// The number of elements of a factor on the device with this coordinate along its axes, and the largest such number.
std::int64_t held_size(const Factor& factor, UnevenRule rule, std::int64_t coordinate);
std::int64_t most_held(const Factor& factor, UnevenRule rule);

// The device's coordinate along the axes together, given minor to major.
std::int64_t coordinate_along(const Mesh& mesh, const std::vector<AxisPart>& axes, Device device);

// Whether the two rules cut the factor alike.
bool same_tiles(const Factor& factor, UnevenRule a, UnevenRule b);

// The number of tiles that the axes cut a dimension into.
std::int64_t tile_count(const std::vector<AxisPart>& axes);

// The moved array of a movement to `target`, in this view: larger than the array where the target's halo wraps.
MovedArray moved_array(const Layout& target, std::vector<Shape> view = {});

// Placements for counting what devices lack: each holds an element at most once on a device. They are the placements of
// the movement, except where ghost zones wrap round a whole dimension and so repeat elements of their own tile.
struct DistinctEnds {
  Placement source;
  Placement target;
};
DistinctEnds distinct_ends(const Layout& source, const Layout& target, std::int64_t world, std::vector<Shape> view);

std::string to_string(const Layout& layout);
// The layout's text and its mesh: "[8{b}16, 16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest".
std::string describe(const Layout& layout);

// Parses a text that is one layout. Throws InputError. Types are layouts; beyond them:
//
//   [9{x}17, 23]              tiles of 9 and 8: the rule is that of ceilings unless one is named
//   [2{y,x}5] nested          or balanced, last
//   [(2,5,3){x}10]            tiles of 2, 5 and 3
//   [1000 cyclic 32{p}]       blocks of 32 to the devices along p in turn; cyclic 32{p} from 1: the first goes to 1
//   [10{x}40 halo (1,2)]      one ghost before and two after each tile; halo 1: one on each side; halo 1 wrap: periodic
//   [8, 3{x}6] order [1, 0]   tiles lie in memory with dimension 1 outermost, like those of the transposed array
//   [3*4{x}16*128, 4096]      a dimension of 3 x 16 x 128, cut in its second factor
//   [8, 16] sum {x}           or max, min: the devices along x hold parts of it
//   [8{x}32] on [3, 2, 1, 0]  on these devices of the world, in the order of the mesh
//   [8, 4] boxes {[0:4, 0:4] [6:8, 0:4]; ; [4:6, 0:4]}    device by device
Layout parse_layout(const SourceText& source, const Mesh& mesh);
Layout parse_layout(std::string_view text, const Mesh& mesh);

// A text such as " sum {x}"; empty where there are no axes.
std::string partial_text(const Mesh& mesh, Reduction reduction, const std::vector<AxisPart>& axes);

}  // namespace retile
