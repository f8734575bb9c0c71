// Lists: elements by numbers of any type, such as devices, dimensions and enumerations.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace retile {

// The number is not negative, and below the list's size.
template <typename List, typename Number>
constexpr decltype(auto) at(List& list, Number number) {
  return list[static_cast<std::size_t>(number)];
}

// 0, 1, … up to but not including the count.
template <typename Number = std::size_t>
std::vector<Number> numbers_below(std::size_t count) {
  std::vector<Number> numbers(count);
  std::iota(numbers.begin(), numbers.end(), Number{0});
  return numbers;
}

}  // namespace retile
