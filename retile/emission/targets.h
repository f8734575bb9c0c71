// The printers, one for each target, and what they share. Others call them through emission.h.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "retile/emission/emission.h"

namespace retile::emission {

std::string emit_jax(const Plan& plan, ElementType element, tensors::ProgramForm form);
std::string emit_mpi(const Plan& plan, ElementType element);
std::string emit_stablehlo(const Plan& plan, ElementType element);
std::string emit_mlir(const Plan& plan, ElementType element);

// A value of a tensor program with its name in the emitted code.
struct NamedValue {
  std::string name;
  Shape shape;
};

// Throws InputError such as "JAX cannot say tiles of different sizes", with a hint at what can.
[[noreturn]] void refuse(Target target, std::string_view what, std::string_view hint);

// A text such as "f32[8, 16] from [4{x}8, 16] to [8, 8{x}16]".
std::string summary_of(const Plan& plan, ElementType element);
// The plan's text, with this margin before each line.
std::string plan_text(const Plan& plan, std::string_view margin);
// A text such as "alltoall(0 -> 1; 4), cost 64: [8, 4{y}8]".
std::string step_text(const Plan& plan, std::size_t step);

// The entries, separated by commas, in lines of at most 110 characters after the margin.
std::string wrapped(const std::vector<std::string>& entries, std::string_view margin);

// Numbers in the language's brackets, such as "[0, 1]".
template <typename Range>
std::string listed(std::string_view opening, const Range& numbers, std::string_view closing) {
  return fmt::format("{}{}{}", opening, fmt::join(numbers, ", "), closing);
}

}  // namespace retile::emission
