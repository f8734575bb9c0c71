#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/list.h"
#include "retile/base/nearest_name.h"
#include "retile/types/layout.h"
#include "retile/types/scanning.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// A factor as written in the text, which also names its largest tile.
struct FactorText {
  std::int64_t tile = 0;
  SourceRange whole;
  std::vector<SourceRange> axes;
};

// How much of the grammar is read. A type is a layout whose dimensions have elements and one factor each, with nothing
// after the bracket. Cuts are tiles that follow from a rule.
enum class Grammar { type, cuts, layout };

std::int64_t scan_size(Scanner& scanner, Grammar grammar, const char* what) {
  return grammar == Grammar::type ? scanner.size(what) : scanner.index(what);
}

// axes ::= [ part { ',' part } ] '}'
std::vector<AxisPart> scan_axes(Scanner& scanner, const Mesh& mesh, Grammar grammar, std::vector<SourceRange>& places) {
  std::vector<AxisPart> axes;
  if (!scanner.looking_at("}")) {
    do {
      const std::size_t begin = scanner.next_position();
      axes.push_back(scan_axis_part(scanner, mesh));
      places.push_back({begin, scanner.last().end});
    } while (scanner.accept(","));
  }
  scanner.expect("}", grammar == Grammar::type ? "or ',' after an axis of a dimension" : "or ',' after an axis");
  return axes;
}

// blocks ::= 'cyclic' size '{' axes [ 'from' index ]
void scan_blocks(Scanner& scanner, const Mesh& mesh, Factor& factor, FactorText& text) {
  factor.block = scanner.size("the size of a block");
  scanner.expect("{", "before the axes that blocks are dealt out along");
  factor.axes = scan_axes(scanner, mesh, Grammar::layout, text.axes);
  if (scanner.accept_word("from")) factor.first = scanner.index("the device of the first block");
}

// factor ::= size [ '{' axes size | blocks ] | '(' size { ',' size } ')' '{' axes size
Factor scan_factor(Scanner& scanner, const Mesh& mesh, Grammar grammar, FactorText& text) {
  Factor factor;
  text.whole.begin = scanner.next_position();
  const bool is_listed = grammar == Grammar::layout && scanner.accept("(");
  if (is_listed) {
    do {
      factor.tiles.push_back(scanner.index("the size of a tile"));
    } while (scanner.accept(","));
    scanner.expect(")", "or ',' after the size of a tile");
  } else {
    factor.size = text.tile = scan_size(scanner, grammar, "a size");
  }
  if (grammar == Grammar::layout && !is_listed && scanner.accept_word("cyclic")) {
    scan_blocks(scanner, mesh, factor, text);
  } else if (is_listed || scanner.looking_at("{")) {
    scanner.expect("{", "before the axes that tiles lie along");
    factor.axes = scan_axes(scanner, mesh, grammar, text.axes);
    factor.size = scan_size(scanner, grammar, "the global size");
  }
  text.whole.end = scanner.last().end;
  return factor;
}

// halo ::= 'halo' ( index | '(' index ',' index ')' ) [ 'wrap' ]
Halo scan_halo(Scanner& scanner) {
  Halo halo;
  if (scanner.accept("(")) {
    halo.before = scanner.index("the width of the ghost zone before a tile");
    scanner.expect(",", "between the widths of the ghost zones before and after a tile");
    halo.after = scanner.index("the width of the ghost zone after a tile");
    scanner.expect(")", "after the widths of ghost zones");
  } else {
    halo.before = halo.after = scanner.index("the width of ghost zones");
  }
  halo.wraps = scanner.accept_word("wrap");
  return halo;
}

// interval ::= index ':' index
void scan_interval(Scanner& scanner, Box& box) {
  box.lo.push_back(scanner.index("the first element of a box"));
  scanner.expect(":", "between the ends of a box");
  box.hi.push_back(scanner.index("the end of a box"));
}

// box ::= '[' [ interval { ',' interval } ] ']'
Box scan_box(Scanner& scanner, SourceRange& place) {
  Box box;
  place.begin = scanner.next_position();
  scanner.expect("[", "at the start of a box");
  if (!scanner.looking_at("]")) {
    do {
      scan_interval(scanner, box);
    } while (scanner.accept(","));
  }
  scanner.expect("]", "or ',' after an interval of a box");
  place.end = scanner.last().end;
  return box;
}

class LayoutScanner {
 public:
  LayoutScanner(Scanner& scanner, const Mesh& mesh, Grammar grammar = Grammar::layout)
      : scanner_(scanner), mesh_(mesh), grammar_(grammar) {}

  Layout scan() {
    begin_ = scanner_.next_position();
    scan_dimensions();
    const bool has_order = scan_order();
    if (scanner_.accept_word("boxes")) return scan_boxes();
    scan_suffixes(has_order);
    require_no_word();
    require_right();
    return Layout(std::move(layout_));
  }

  MeshLayout scan_cuts() {
    begin_ = scanner_.next_position();
    scan_dimensions();
    scan_rule();
    scan_partial();
    require_right();
    layout_.halo.clear();
    return std::move(layout_);
  }

  DistributedType scan_type() {
    begin_ = scanner_.next_position();
    scan_dimensions();
    std::vector<Dimension> dimensions;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const Factor& factor = layout_.view[i][0];
      dimensions.push_back({texts_[i][0].tile, factor.axes, factor.size});
    }
    if (const auto found = DistributedType::find_fault(mesh_, dimensions)) {
      scanner_.fail(place_of({found->dimension, 0, found->axis, -1, {}}), found->fault);
    }
    return {mesh_, std::move(dimensions)};
  }

 private:
  // Reports a misspelt word of a layout. Other words are reported by the caller, who expects the end of the text.
  void require_no_word() {
    if (!scanner_.looking_at_name() || scanner_.looking_at("\"")) return;
    const std::string word(scanner_.peek_word());
    const std::vector<std::string> known{"ceil", "nested", "balanced", "last",  "sum",
                                         "max",  "min",    "on",       "order", "boxes"};
    const auto nearest = nearest_name(word, known);
    if (!nearest || *nearest == word || word.size() < 3) return;  // one or two letters resemble too many words
    const std::size_t begin = scanner_.next_position();
    scanner_.fail({begin, begin + word.size()}, fmt::format("unknown word '{}' after a type", word),
                  fmt::format("did you mean {}?", *nearest));
  }

  // dimensions ::= '[' [ dimension { ',' dimension } ] ']', dimension ::= factor { '*' factor } [ halo ]
  void scan_dimensions() {
    scanner_.expect("[", "at the start of a type");
    if (!scanner_.looking_at("]")) {
      do {
        std::vector<Factor>& factors = layout_.view.emplace_back();
        std::vector<FactorText>& texts = texts_.emplace_back();
        do {
          factors.push_back(scan_factor(scanner_, mesh_, grammar_, texts.emplace_back()));
        } while (grammar_ != Grammar::type && scanner_.accept("*"));
        layout_.halo.emplace_back();
        if (grammar_ == Grammar::layout && scanner_.accept_word("halo")) {
          layout_.halo.back() = scan_halo(scanner_);
          texts.front().whole.end = scanner_.last().end;
        }
      } while (scanner_.accept(","));
    }
    scanner_.expect("]", "or ',' after a dimension");
  }

  // Scans the rule, the parts of a sum, the devices and the order, each at most once, in any order.
  void scan_suffixes(bool has_order) {
    std::vector<bool (LayoutScanner::*)()> suffixes{&LayoutScanner::scan_rule, &LayoutScanner::scan_partial,
                                                    &LayoutScanner::scan_devices};
    if (!has_order) suffixes.push_back(&LayoutScanner::scan_order);
    while (std::erase_if(suffixes, [&](const auto suffix) { return (this->*suffix)(); }) > 0) {
    }
  }

  // Scans the rule, if it is next. This function, scan_order(), scan_partial() and scan_devices() return whether they
  // scanned anything.
  bool scan_rule() {
    const auto accept = [&](const char* word, UnevenRule rule) {
      if (!scanner_.accept_word(word)) return false;
      layout_.rule = rule;
      return true;
    };
    // Programs may have values called `last`, so only whole layouts read this rule.
    return accept("nested", UnevenRule::nested) || accept("balanced", UnevenRule::balanced) ||
           (grammar_ == Grammar::layout && accept("last", UnevenRule::last)) || accept("ceil", UnevenRule::ceiling);
  }

  // order ::= 'order' '[' index { ',' index } ']'
  bool scan_order() {
    const std::size_t begin = scanner_.next_position();
    if (!scanner_.accept_word("order")) return false;
    scanner_.expect("[", "before an order of dimensions");
    do {
      const std::int64_t dimension = scanner_.index("a dimension");
      layout_.order.push_back(static_cast<int>(std::min<std::int64_t>(dimension, INT_MAX)));
    } while (scanner_.accept(","));
    scanner_.expect("]", "or ',' after a dimension");
    order_ = {begin, scanner_.last().end};
    return true;
  }

  // boxes ::= '{' { box } { ';' { box } } '}'
  Layout scan_boxes() {
    BoxLayout boxes;
    std::vector<std::vector<SourceRange>> places;
    for (const std::vector<Factor>& factors : layout_.view) {
      if (factors.size() != 1 || !factors[0].axes.empty() || factors[0].block > 0) {
        scanner_.fail({begin_, scanner_.last().end}, "listed boxes are of an array that no axis cuts",
                      "write its shape alone: [8, 4] boxes {...}");
      }
      boxes.shape.push_back(factors[0].size);
    }
    boxes.halo = layout_.halo;
    boxes.order = layout_.order;
    scanner_.expect("{", "before listed boxes");
    do {
      boxes.boxes.emplace_back();
      places.emplace_back();
      while (scanner_.looking_at("[")) {
        boxes.boxes.back().push_back(scan_box(scanner_, places.back().emplace_back()));
      }
    } while (scanner_.accept(";"));
    scanner_.expect("}", "or ';' and the boxes of the next device");
    if (const auto found = Layout::find_fault(boxes)) {
      SourceRange place{begin_, scanner_.last().end};
      if (found->is_of_order) place = order_;
      if (found->dimension >= 0) place = at(texts_, found->dimension).front().whole;
      if (found->device >= 0) place = at(at(places, found->device), found->box);
      scanner_.fail(place, found->fault);
    }
    return Layout(std::move(boxes));
  }

  bool scan_partial() {
    for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
      if (!scanner_.accept_word(name_of(reduction))) continue;
      layout_.reduction = reduction;
      scanner_.expect("{", "before the axes whose devices hold parts");
      layout_.partial = scan_axes(scanner_, mesh_, grammar_, partial_);
      return true;
    }
    return false;
  }

  // devices ::= 'on' '[' device { ',' device } ']'
  bool scan_devices() {
    if (!scanner_.accept_word("on")) return false;
    scanner_.expect("[", "before the devices of a layout");
    do {
      layout_.devices.push_back(scanner_.index("a device"));
      devices_.push_back(scanner_.last());
    } while (scanner_.accept(","));
    scanner_.expect("]", "or ',' after a device");
    return true;
  }

  void require_right() const {
    if (const auto found = Layout::find_fault(layout_)) scanner_.fail(place_of(*found), found->fault);
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      for (std::size_t j = 0; j < texts_[i].size(); ++j) require_tile(layout_.view[i][j], texts_[i][j]);
    }
  }

  void require_tile(const Factor& factor, const FactorText& text) const {
    const std::int64_t largest = most_held(factor, layout_.rule);
    if (text.tile == largest || factor.block > 0 || !factor.tiles.empty()) return;
    const std::int64_t count = tile_count(factor.axes);
    scanner_.fail(text.whole,
                  fmt::format("a size of {} cannot be cut into {} tile{} of {}", factor.size, count,
                              count == 1 ? "" : "s", text.tile),
                  fmt::format("for {} in all, the largest tile is {}", factor.size, largest));
  }

  SourceRange place_of(const Layout::MeshFault& found) const {
    if (found.is_of_order) return order_;
    if (found.dimension < 0 && found.axis >= 0) return at(partial_, found.axis);
    if (found.device >= 0) return at(devices_, found.device);
    if (found.dimension < 0) return {begin_, scanner_.last().end};
    const FactorText& text = at(at(texts_, found.dimension), std::max(found.factor, 0));
    return found.axis < 0 ? text.whole : at(text.axes, found.axis);
  }

  Scanner& scanner_;
  const Mesh& mesh_;
  const Grammar grammar_;
  MeshLayout layout_{mesh_, {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  std::size_t begin_ = 0;
  std::vector<std::vector<FactorText>> texts_;
  std::vector<SourceRange> partial_;
  std::vector<SourceRange> devices_;
  SourceRange order_;
};

std::string axes_text(const Mesh& mesh, const std::vector<AxisPart>& axes) {
  std::string text;
  for (const AxisPart& part : axes) text += (text.empty() ? "" : ",") + to_string(mesh, part);
  return text;
}

std::string to_string(const Factor& factor, const MeshLayout& layout) {
  const std::string axes = axes_text(layout.mesh, factor.axes);
  if (factor.block > 0) {
    const std::string first = factor.first == 0 ? "" : fmt::format(" from {}", factor.first);
    return fmt::format("{} cyclic {}{{{}}}{}", factor.size, factor.block, axes, first);
  }
  if (!factor.tiles.empty()) return fmt::format("({}){{{}}}{}", fmt::join(factor.tiles, ","), axes, factor.size);
  const std::int64_t tile = most_held(factor, layout.rule);
  return factor.axes.empty() ? fmt::format("{}", tile) : fmt::format("{}{{{}}}{}", tile, axes, factor.size);
}

std::string halo_text(const std::vector<Halo>& halo, std::size_t dimension) {
  if (halo.empty() || (halo[dimension].before == 0 && halo[dimension].after == 0)) return "";
  const auto& [before, after, wraps] = halo[dimension];
  const std::string widths = before == after ? fmt::format("{}", before) : fmt::format("({},{})", before, after);
  return fmt::format(" halo {}{}", widths, wraps ? " wrap" : "");
}

std::string order_text(const std::vector<int>& order) {
  return order.empty() ? "" : fmt::format(" order [{}]", fmt::join(order, ", "));
}

std::string to_string(const MeshLayout& layout) {
  std::string text = "[";
  for (std::size_t i = 0; i < layout.view.size(); ++i) {
    if (i > 0) text += ", ";
    const std::vector<Factor>& factors = layout.view[i];
    for (std::size_t j = 0; j < factors.size(); ++j) text += (j == 0 ? "" : "*") + to_string(factors[j], layout);
    text += halo_text(layout.halo, i);
  }
  text += "]" + order_text(layout.order);
  if (layout.rule != UnevenRule::ceiling) text += fmt::format(" {}", name_of(layout.rule));
  text += partial_text(layout.mesh, layout.reduction, layout.partial);
  if (!layout.devices.empty()) text += fmt::format(" on [{}]", fmt::join(layout.devices, ", "));
  return text;
}

std::string to_string(const BoxLayout& layout) {
  std::string text = "[";
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", layout.shape[i], halo_text(layout.halo, i));
  }
  text += "]" + order_text(layout.order) + " boxes {";
  for (std::size_t device = 0; device < layout.boxes.size(); ++device) {
    if (device > 0) text += "; ";
    for (std::size_t i = 0; i < layout.boxes[device].size(); ++i) {
      text += (i == 0 ? "" : " ") + retile::to_string(layout.boxes[device][i]);
    }
  }
  return text + "}";
}

}  // namespace

Layout parse_layout(const SourceText& source, const Mesh& mesh) {
  Scanner scanner(source);
  Layout layout = LayoutScanner(scanner, mesh).scan();
  scanner.expect_end("the layout");
  return layout;
}

Layout parse_layout(std::string_view text, const Mesh& mesh) {
  return parse_layout(SourceText{"layout", std::string(text)}, mesh);
}

DistributedType scan_type(Scanner& scanner, const Mesh& mesh) {
  return LayoutScanner(scanner, mesh, Grammar::type).scan_type();
}

MeshLayout scan_cuts(Scanner& scanner, const Mesh& mesh) {
  return LayoutScanner(scanner, mesh, Grammar::cuts).scan_cuts();
}

std::string partial_text(const Mesh& mesh, Reduction reduction, const std::vector<AxisPart>& axes) {
  return axes.empty() ? "" : fmt::format(" {} {{{}}}", name_of(reduction), axes_text(mesh, axes));
}

std::string to_string(const Layout& layout) {
  if (const DistributedType* type = layout.type()) return to_string(*type);
  if (const BoxLayout* boxes = layout.listed()) return to_string(*boxes);
  return to_string(*layout.cuts());
}

std::string describe(const Layout& layout) {
  const auto cuts = layout.cuts();
  std::string text = to_string(layout);
  if (!cuts) return text;
  if (cuts->mesh.axis_count() == 0) return cuts->devices.empty() ? text + " on device 0" : text;
  text += fmt::format(" on mesh {}", to_string(cuts->mesh));
  if (!cuts->devices.empty()) return text;  // the text has listed them already
  return text + fmt::format(", devices 0 to {} with {} fastest", cuts->mesh.device_count() - 1,
                            quote_name(cuts->mesh.axes().back().name));
}

}  // namespace retile
