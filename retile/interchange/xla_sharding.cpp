#include "retile/interchange/xla_sharding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/interchange/readers.h"
#include "retile/types/mesh.h"

namespace retile::interchange {
namespace {

// Scans '[' size { ',' size } ']', and its place.
std::vector<std::int64_t> scan_sizes(Scanner& scanner, std::string_view what, SourceRange& place) {
  std::vector<std::int64_t> sizes;
  scanner.expect("[", fmt::format("before {}", what));
  place.begin = scanner.last().begin;
  do {
    sizes.push_back(scanner.size(what));
  } while (scanner.accept(","));
  scanner.expect("]", fmt::format("or ',' after {}", what));
  place.end = scanner.last().end;
  return sizes;
}

// permutation ::= '(' index { ',' index } ')'
std::vector<Digit> scan_transposed(Scanner& scanner, const std::vector<Digit>& digits) {
  std::vector<Digit> result;
  std::set<std::int64_t> seen;
  std::string text;
  scanner.expect("(", "before a permutation");
  const std::size_t begin = scanner.last().begin;
  bool is_right = true;
  do {
    const std::int64_t index = scanner.index("a dimension");
    text += fmt::format("{}{}", text.empty() ? "" : ",", index);
    is_right = is_right && index < static_cast<std::int64_t>(digits.size()) && seen.insert(index).second;
    if (is_right) result.push_back(at(digits, index));
  } while (scanner.accept(","));
  scanner.expect(")", "or ',' after a dimension of a permutation");
  if (is_right && result.size() == digits.size()) return result;
  scanner.fail({begin, scanner.last().end}, fmt::format("({}) is no permutation of {} dimensions", text, digits.size()),
               digits.size() == 1 ? "it is (0)" : fmt::format("it names each of 0 to {} once", digits.size() - 1));
}

class ShardingScanner {
 public:
  explicit ShardingScanner(const SourceText& text) : scanner_(text) {}

  Sharding scan() {
    const bool is_wrapped = scanner_.accept("GSPMDSharding(");
    const std::size_t begin = scanner_.next_position();
    scanner_.expect("{", "at the start of a sharding");
    if (scanner_.looking_at("{")) {
      scanner_.fail_here("this is a tuple of shardings", "give the one of the array");
    }
    scan_kind();
    while (!scanner_.accept("}")) scan_field();
    sharding_.place = {begin, scanner_.last().end};
    if (is_wrapped) scanner_.expect(")", "after a GSPMDSharding");
    scanner_.expect_end("the sharding");
    if (sharding_.kind == Sharding::Kind::tiled) require_counts();
    return std::move(sharding_);
  }

 private:
  void scan_kind() {
    const std::string kind = scanner_.name("'devices', 'replicated' or 'maximal'");
    if (kind == "devices") return scan_tiles();
    if (kind == "replicated") {
      sharding_.kind = Sharding::Kind::replicated;
    } else if (kind == "unreduced") {
      sharding_.kind = Sharding::Kind::unreduced;
    } else if (kind == "maximal") {
      sharding_.kind = Sharding::Kind::maximal;
      scanner_.expect_word("device", "of a maximal sharding");
      scanner_.expect("=", "before the device");
      sharding_.device = scanner_.index("a device");
      if (sharding_.device >= Mesh::most_devices) scanner_.fail(scanner_.last(), "there are not so many devices");
    } else if (kind == "manual" || kind == "unknown") {
      scanner_.fail(scanner_.last(), fmt::format("a sharding that is {} does not say who holds what", kind),
                    "give one with devices=[...]");
    } else {
      fail_at_field(scanner_, "a sharding", kind, {"devices", "replicated", "maximal", "unreduced"});
    }
  }

  // tiles ::= '=' numbers ( '<=' numbers [ 'T' permutation ] | device { ',' device } )
  void scan_tiles() {
    scanner_.expect("=", "after 'devices'");
    sharding_.counts = scan_sizes(scanner_, "a number of tiles", sharding_.counts_place);
    const auto product = checked_product(sharding_.counts);
    if (!product || *product > Mesh::most_devices) {
      scanner_.fail(sharding_.counts_place, "these are more tiles than there can be devices",
                    fmt::format("at most {}", Mesh::most_devices));
    }
    const bool is_shaped = scanner_.accept("<=");
    sharding_.order = is_shaped ? scan_shaped_order(scanner_) : scan_listed_order(scanner_);
  }

  void scan_field() {
    scanner_.accept(",");
    if (scanner_.at_end()) scanner_.expect("}", "at the end of a sharding");
    const std::string field = scanner_.name("a field of the sharding, or '}'");
    const bool is_tiled = sharding_.kind == Sharding::Kind::tiled;
    if (field == "last_tile_dim_replicate" && is_tiled) {
      add_subgroup(Subgroup::replicated);
    } else if (field == "last_tile_dims" && is_tiled) {
      scan_subgroups();
    } else if (field == "metadata") {
      scanner_.expect("=", "after 'metadata'");
      skip_brackets(scanner_);
    } else if (field == "shard_as" || field == "shard_like") {
      scanner_.index("the number of a group of shardings");
    } else {
      std::vector<std::string> known{"metadata", "shard_as", "shard_like"};
      if (is_tiled) known.insert(known.begin(), {"last_tile_dim_replicate", "last_tile_dims"});
      fail_at_field(scanner_, "a sharding", field, std::move(known));
    }
  }

  void scan_subgroups() {
    scanner_.expect("=", "after 'last_tile_dims'");
    scanner_.expect("{", "before the kinds of the last tile dimensions");
    do {
      const std::string kind = scanner_.name("a kind of tile dimension");
      if (kind == "manual") {
        scanner_.fail(scanner_.last(), "devices of a manual tile dimension hold arrays of their own",
                      "redistribute the array of one of them: leave the dimension out, and its devices");
      }
      if (kind != "replicated" && kind != "unreduced") {
        fail_at_field(scanner_, "last_tile_dims", kind, {"replicated", "unreduced", "manual"});
      }
      add_subgroup(kind == "replicated" ? Subgroup::replicated : Subgroup::unreduced);
    } while (scanner_.accept(","));
    scanner_.expect("}", "or ',' after a kind of tile dimension");
  }

  void add_subgroup(Subgroup subgroup) {
    if (sharding_.subgroups.size() == sharding_.counts.size()) {
      scanner_.fail(scanner_.last(), "there is no tile dimension left for this");
    }
    sharding_.subgroups.push_back(subgroup);
  }

  void require_counts() const {
    const std::int64_t tiles = product(sharding_.counts);
    if (tiles == sharding_.order.count) return;
    const bool may_replicate = sharding_.subgroups.empty() && sharding_.order.count % tiles == 0;
    scanner_.fail(sharding_.counts_place,
                  fmt::format("[{}] are {} tiles, for {} devices", fmt::join(sharding_.counts, ","), tiles,
                              sharding_.order.count),
                  may_replicate ? fmt::format("where {} devices hold each tile: [{},{}], and last_tile_dim_replicate",
                                              sharding_.order.count / tiles, fmt::join(sharding_.counts, ","),
                                              sharding_.order.count / tiles)
                                : "every tile has one device");
  }

  Scanner scanner_;
  Sharding sharding_;
};

}  // namespace

DeviceOrder scan_shaped_order(Scanner& scanner) {
  SourceRange place;
  const std::vector<std::int64_t> shape = scan_sizes(scanner, "a size of the list of devices", place);
  const auto product = checked_product(shape);
  if (!product || *product > Mesh::most_devices) {
    scanner.fail(place, "there are not so many devices", fmt::format("at most {}", Mesh::most_devices));
  }
  std::vector<Digit> digits;
  std::int64_t stride = *product;
  for (const std::int64_t size : shape) digits.push_back({size, stride /= size});
  if (scanner.accept_word("T")) digits = scan_transposed(scanner, digits);
  return {*product, joined(digits)};
}

DeviceOrder scan_listed_order(Scanner& scanner) {
  std::vector<Device> devices;
  std::set<Device> seen;
  do {
    devices.push_back(scanner.index("'<=' or a device"));
    if (devices.back() >= Mesh::most_devices) scanner.fail(scanner.last(), "there are not so many devices");
    if (!seen.insert(devices.back()).second) {
      scanner.fail(scanner.last(), fmt::format("device {} is listed twice", devices.back()));
    }
  } while (scanner.accept(","));
  const auto count = static_cast<std::int64_t>(devices.size());
  if (auto digits = find_digits(devices)) return {count, joined(*digits)};
  return {count, {}, std::move(devices)};
}

Sharding scan_sharding(const SourceText& text) { return ShardingScanner(text).scan(); }

}  // namespace retile::interchange
