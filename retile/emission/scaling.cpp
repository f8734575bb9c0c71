#include "retile/emission/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <sstream>
#include <string_view>
#include <vector>

#include "retile/base/list.h"

namespace retile::emission {
namespace {

// The dimension after a step that was `dimension` before it: a reduction removes dimensions in front.
int dimension_after(const Step& step, int dimension) {
  const auto* reduce = std::get_if<ReduceStep>(&step.operation);
  if (reduce == nullptr) return dimension;
  const auto end = std::lower_bound(reduce->dimensions.begin(), reduce->dimensions.end(), dimension);
  return dimension - static_cast<int>(end - reduce->dimensions.begin());
}

bool is_reduced(const Step& step, int dimension) {
  const auto* reduce = std::get_if<ReduceStep>(&step.operation);
  return reduce != nullptr && std::ranges::count(reduce->dimensions, dimension) > 0;
}

// The greatest length of which all tiles are multiples in this dimension; 1 where a reduction removes it.
std::int64_t find_unit(const Movement& movement, int dimension) {
  std::int64_t unit = at(movement.source.tile_shape(), dimension);
  for (const Step& step : movement.steps) {
    if (is_reduced(step, dimension)) return 1;
    dimension = dimension_after(step, dimension);
    unit = std::gcd(unit, at(step.after.tile_shape(), dimension));
  }
  return unit;
}

bool is_even(const Placement& placement) { return !placement.is_listed() && placement.is_even(); }

std::int64_t scaled(std::int64_t length, const Scale& scale) { return length / scale.unit * scale.smaller; }

Placement scaled(const Placement& placement, const Scale& scale) {
  const auto shorter = [&](Shape shape) {
    at(shape, scale.dimension) = scaled(at(shape, scale.dimension), scale);
    return shape;
  };
  std::vector<std::int64_t> corners;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Shape corner = shorter(placement.offset(device));
    corners.insert(corners.end(), corner.begin(), corner.end());
  }
  return {shorter(placement.global_shape()), shorter(placement.tile_shape()), std::move(corners)};
}

// --- Text.

struct Token {
  std::string_view text;
  bool is_number = false;
};

// Splits text into runs of digits that are no part of a name, and what lies between them.
std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    const bool is_number = is_digit(text[begin]);
    if (is_number) {
      while (end < text.size() && is_digit(text[end])) ++end;
    } else {
      while (end < text.size() && (!is_digit(text[end]) || (end > begin && is_of_name(text[end - 1])))) ++end;
    }
    tokens.push_back({text.substr(begin, end - begin), is_number});
    begin = end;
  }
  return tokens;
}

// A multiple of the unit: "UNIT", "4 * UNIT" as an entry of a list, "(4 * UNIT)" elsewhere.
std::string multiple(std::int64_t count, std::string_view before, std::string_view after) {
  if (count == 1) return "UNIT";
  const std::size_t last = before.find_last_not_of(' ');
  const auto is_one_of = [](std::string_view some, char c) { return some.find(c) != std::string_view::npos; };
  const bool is_entry = last != std::string_view::npos && is_one_of("([,", before[last]) && !after.empty() &&
                        is_one_of(",)]", after.front());
  return is_entry ? fmt::format("{} * UNIT", count) : fmt::format("({} * UNIT)", count);
}

std::optional<std::string> merged_code(std::string_view larger, std::string_view smaller, const Scale& scale) {
  const std::vector<Token> some = tokens_of(larger), others = tokens_of(smaller);
  if (some.size() != others.size()) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (some[i].text == others[i].text) {
      text += some[i].text;
      continue;
    }
    if (!some[i].is_number || !others[i].is_number) return std::nullopt;
    const std::int64_t number = std::stoll(std::string(some[i].text)), other = std::stoll(std::string(others[i].text));
    const std::int64_t count = number / scale.unit;
    if (count * scale.unit != number || count * scale.smaller != other) return std::nullopt;
    text += multiple(count, text, i + 1 < some.size() ? some[i + 1].text : "");
  }
  return text;
}

bool is_documentation(const std::string& line) { return line.find("\"\"\"") != std::string::npos; }

}  // namespace

std::vector<Scale> find_scales(const Movement& movement) {
  const auto is_step_even = [](const Step& step) { return is_even(step.after); };
  if (!is_even(movement.source) || !std::ranges::all_of(movement.steps, is_step_even)) return {};
  std::vector<Scale> scales;
  for (int dimension = 0; dimension < movement.source.rank(); ++dimension) {
    const std::int64_t unit = find_unit(movement, dimension);
    for (const std::int64_t smaller : {4, 2, 1}) {
      if (unit > smaller) scales.push_back({dimension, unit, smaller});
    }
  }
  std::ranges::stable_sort(scales, std::greater(), &Scale::unit);
  return scales;
}

Plan scaled(Plan plan, const Scale& scale) {
  Scale here = scale;
  plan.movement.source = scaled(plan.movement.source, here);
  for (Step& step : plan.movement.steps) {
    if (auto* exchange = std::get_if<ExchangeStep>(&step.operation); exchange != nullptr && exchange->pieces) {
      for (Piece& piece : *exchange->pieces) {
        for (Shape* corner : {&piece.box.lo, &piece.box.hi}) {
          at(*corner, here.dimension) = scaled(at(*corner, here.dimension), here);
        }
      }
    }
    here.dimension = dimension_after(step, here.dimension);
    step.after = scaled(step.after, here);
  }
  return plan;
}

std::optional<std::string> merged(const std::string& larger, const std::string& smaller, const Scale& scale) {
  std::istringstream some(larger), others(smaller);
  std::string text, line, other;
  while (std::getline(some, line)) {
    if (!std::getline(others, other)) return std::nullopt;
    const std::size_t remark = is_documentation(line) ? 0 : std::min(line.find('#'), line.size());
    const std::size_t other_remark = is_documentation(other) ? 0 : std::min(other.find('#'), other.size());
    const auto code =
        merged_code(std::string_view(line).substr(0, remark), std::string_view(other).substr(0, other_remark), scale);
    if (!code) return std::nullopt;
    text += *code + line.substr(remark) + "\n";
  }
  return std::getline(others, other) ? std::nullopt : std::optional(text);
}

}  // namespace retile::emission
