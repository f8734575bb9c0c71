#include "retile/interchange/device_digits.h"

#include <algorithm>
#include <utility>

namespace retile::interchange {

std::vector<Digit> joined(const std::vector<Digit>& digits) {
  std::vector<Digit> result;
  for (const Digit& digit : digits) {
    if (digit.size == 1) continue;
    if (!result.empty() && result.back().stride == digit.size * digit.stride) {
      result.back() = {result.back().size * digit.size, digit.stride};
    } else {
      result.push_back(digit);
    }
  }
  return result;
}

std::optional<std::vector<Digit>> take(std::vector<Digit>& digits, std::int64_t count) {
  std::vector<Digit> taken;
  while (count > 1) {
    if (digits.empty()) return std::nullopt;
    Digit& first = digits.front();
    if (count % first.size == 0) {
      count /= first.size;
      taken.push_back(first);
      digits.erase(digits.begin());
    } else if (first.size % count == 0) {
      first.size /= count;
      taken.push_back({count, first.stride * first.size});
      count = 1;
    } else {
      return std::nullopt;
    }
  }
  return joined(taken);
}

std::optional<std::vector<Digit>> find_digits(const std::vector<Device>& devices) {
  std::vector<Digit> digits;  // minor to major
  const auto total = static_cast<std::int64_t>(devices.size());
  const auto at = [&](std::int64_t i) { return devices[static_cast<std::size_t>(i)]; };
  if (at(0) != 0) return std::nullopt;
  for (std::int64_t done = 1; done < total;) {
    const std::int64_t stride = at(done);
    std::int64_t size = 2;
    while (done * size < total && at(done * size) == stride * size) ++size;
    if (stride < 1 || total % (done * size) != 0) return std::nullopt;
    for (std::int64_t i = done; i < done * size; ++i) {
      if (at(i) != at(i % done) + i / done * stride) return std::nullopt;
    }
    digits.push_back({size, stride});
    done *= size;
  }
  std::vector<Digit> by_stride = digits;
  std::sort(by_stride.begin(), by_stride.end(), [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  std::int64_t stride = 1;
  for (const Digit& digit : by_stride) {
    if (digit.stride != stride) return std::nullopt;
    stride *= digit.size;
  }
  return std::vector<Digit>(digits.rbegin(), digits.rend());
}

std::vector<Device> listed(const std::vector<Digit>& digits) {
  std::vector<Device> devices{0};
  for (const Digit& digit : digits) {
    std::vector<Device> longer;
    for (const Device device : devices) {
      for (std::int64_t i = 0; i < digit.size; ++i) longer.push_back(device + i * digit.stride);
    }
    devices = std::move(longer);
  }
  return devices;
}

}  // namespace retile::interchange
