#include "retile/planner/periods.h"

#include <numeric>
#include <optional>

#include "retile/base/arithmetic.h"

namespace retile {
namespace {

// The number of elements after which a device holds the same again; 1 where the dimension is cut as a whole or not at
// all. Nothing where it exceeds 63 bits.
std::optional<std::int64_t> period_of(const Layout& layout, std::size_t dimension) {
  const std::optional<MeshLayout> cuts = layout.cuts();
  if (!cuts) return 1;
  const std::vector<Factor>& factors = cuts->view[dimension];
  if (factors[0].block > 0) return checked_multiply(factors[0].block, tile_count(factors[0].axes));
  if (!factors[0].axes.empty()) return 1;
  std::int64_t inner = 1;
  for (std::size_t i = 1; i < factors.size(); ++i) inner *= factors[i].size;
  return inner;
}

std::optional<std::int64_t> common_period(const Problem& problem, std::size_t dimension) {
  const auto from = period_of(problem.source(), dimension);
  const auto to = period_of(problem.target(), dimension);
  return from && to ? checked_multiply(*from / std::gcd(*from, *to), *to) : std::nullopt;
}

}  // namespace

std::vector<Shape> find_periods(const Problem& problem) {
  const Shape shape = problem.source().global_shape();
  const MovedArray array = moved_array(problem.target());
  std::vector<Shape> view;
  bool has_periods = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t period = common_period(problem, i).value_or(1);
    const bool goes_on = !array.margins.empty() && array.margins[i].wraps;
    if (goes_on) {
      view.push_back({shape[i] + array.margins[i].before + array.margins[i].after});
    } else if (period > 1 && shape[i] / period > 1) {
      view.push_back({divide_up(shape[i], period), period});
      has_periods = true;
    } else {
      view.push_back({shape[i]});
    }
  }
  std::optional<std::int64_t> elements = 1;  // including those of the view beyond the array
  for (const Shape& factors : view) {
    const std::optional<std::int64_t> size = checked_product(factors);
    elements = elements && size ? checked_multiply(*elements, *size) : std::nullopt;
  }
  return has_periods && elements ? view : std::vector<Shape>();
}

}  // namespace retile
