// An exchange between any boxes: every device receives what it lacks, and holders of the same box share the sending.
#include <algorithm>
#include <iterator>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/list.h"
#include "retile/grids/box_index.h"
#include "retile/grids/held_boxes.h"
#include "retile/plan/lists.h"
#include "retile/plan/senders.h"

namespace retile {
namespace {

// Cuts a box into one of at most `elements` elements, which is fewer than it has, and the rest, between slabs of its
// longest dimension. If one slab has more elements than that, one slab is cut off.
std::pair<Box, Box> cut_box(const Box& box, std::int64_t elements) {
  const std::size_t longest = longest_dimension(box);
  const std::int64_t slab = volume(box) / (box.hi[longest] - box.lo[longest]);
  std::pair<Box, Box> cut{box, box};
  cut.first.hi[longest] = cut.second.lo[longest] = box.lo[longest] + std::max<std::int64_t>(1, elements / slab);
  return cut;
}

// A part of a box that a device lacks.
struct Lack {
  Device to = 0;
  std::int64_t elements = 0;
  Box box;
};

class BoxExchange {
 public:
  BoxExchange(const Placement& before, const Placement& after)
      : after_(after), held_(held_boxes(before)), received_(static_cast<std::size_t>(before.device_count())) {}

  // The pieces; nothing where there are more than `most`.
  std::optional<std::vector<Piece>> pieces(std::size_t most) {
    if (!find_pieces(most)) return std::nullopt;
    share_out();
    for (std::size_t box = 0; box < held_.size(); ++box)
      deal(held_[box].holders, shares_[box], std::move(wanted_[box]));
    std::vector<Piece> all;
    all.reserve(count_);
    for (std::vector<Piece>& received : received_) {
      std::sort(received.begin(), received.end(), [](const Piece& a, const Piece& b) {
        return a.from != b.from ? a.from < b.from : a.box.lo < b.box.lo;
      });
      std::move(received.begin(), received.end(), std::back_inserter(all));
    }
    return all;
  }

 private:
  // Finds what devices lack, by the box that contains it, without senders. False where that makes more than `most`
  // pieces.
  bool find_pieces(std::size_t most) {
    const BoxIndex index(held_);
    wanted_.resize(held_.size());
    std::size_t count = 0;
    for (Device device = 0; device < after_.device_count(); ++device) {
      for (const Part& part : after_.parts(device)) {
        index.visit_shared(part.box, [&](std::size_t box, Box shared) {
          const std::vector<Device>& holders = held_[box].holders;
          if (std::binary_search(holders.begin(), holders.end(), device)) return;
          const std::int64_t elements = volume(shared);
          wanted_[box].push_back({device, elements, std::move(shared)});
          ++count;
        });
        if (count > most) return false;
      }
    }
    return true;
  }

  // Chooses how many elements of each box each holder sends, so that the most loaded device sends as little as
  // possible. Where totals exceed 63 bits, the first holders send everything.
  void share_out() {
    std::vector<SenderDemand> demands;
    std::optional<std::int64_t> total = 0;
    for (std::size_t box = 0; box < held_.size(); ++box) {
      SenderDemand& demand = demands.emplace_back(SenderDemand{held_[box].holders, 0});
      for (const Lack& lack : wanted_[box]) {
        total = total ? checked_add(*total, lack.elements) : std::nullopt;
        demand.amount += total ? lack.elements : 0;
      }
      shares_.emplace_back(held_[box].holders.size());
    }
    if (total) shares_ = share_sending(demands, after_.device_count()).shares;
  }

  // Gives every holder its share of what is lacking, give or take what is not worth another message.
  void deal(const std::vector<Device>& holders, const std::vector<std::int64_t>& shares, std::vector<Lack> lacks) {
    std::reverse(lacks.begin(), lacks.end());  // so that the first is at the back
    std::size_t last = holders.size();
    while (last > 1 && shares[last - 1] == 0) --last;
    for (std::size_t i = 0; i < last && !lacks.empty(); ++i) {
      const bool is_last = i + 1 == last;
      const std::int64_t slack = shares[i] / 50;
      std::int64_t taken = 0;
      while (!lacks.empty() && (is_last || taken + slack < shares[i])) {
        Lack& lack = lacks.back();
        if (!is_last && taken + lack.elements > shares[i] + slack) {
          auto [first, rest] = cut_box(lack.box, shares[i] + slack - taken);
          const Lack cut{lack.to, volume(first), std::move(first)};
          lack = {lack.to, lack.elements - cut.elements, std::move(rest)};
          lacks.push_back(cut);
          continue;
        }
        taken += lack.elements;
        at(received_, lack.to).push_back({holders[i], lack.to, std::move(lack.box)});
        lacks.pop_back();
        ++count_;
      }
    }
  }

  const Placement& after_;
  const std::vector<HeldBox> held_;
  std::vector<std::vector<Lack>> wanted_;          // by box
  std::vector<std::vector<std::int64_t>> shares_;  // elements, by box and holder
  std::vector<std::vector<Piece>> received_;       // by device
  std::size_t count_ = 0;                          // of pieces
};

}  // namespace

std::optional<std::vector<Piece>> shared_pieces(const Placement& before, const Placement& after, std::size_t most) {
  return BoxExchange(before, after).pieces(most);
}

}  // namespace retile
