// Made-up sums, for runs to check: parts of small whole numbers, so that what they make up is known exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// A sum, or a maximum or minimum, as a step combines it.
class MadeSum {
 public:
  // `stacked` is the shape of the parts side by side.
  MadeSum(const ReduceStep& reduce, Shape stacked, std::uint64_t seed);

  // The part of the stacked array that a device holds.
  void make_parts(const std::vector<Part>& held, std::byte* memory) const;

  // The first element in which what a device holds is not the result.
  std::optional<std::string> find_difference(const std::vector<Part>& held, Device device,
                                             const std::byte* memory) const;

 private:
  std::int64_t number_at(const Shape& element) const;
  void make_whole(const Shape& element, std::byte* out) const;

  const ReduceStep reduce_;
  const Shape stacked_;
  const std::uint64_t seed_;
  const std::int64_t size_;  // bytes of an element
};

}  // namespace retile
