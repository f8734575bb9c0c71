#include "retile/language/syntax.h"

#include <algorithm>

#include "retile/base/names.h"

namespace retile::language {
namespace {

constexpr Names<Redistribute::Kind, 4> redistributions{{"redistribute", "distribute", "undistribute", "allreduce"}};

}  // namespace

const std::vector<OperationForm>& operation_forms() {
  static const std::vector<OperationForm> forms{
      {LocalOp::matmul, "matmul", "ee"},
      {LocalOp::max, "max", "ee"},
      {LocalOp::exp, "exp", "e"},
      {LocalOp::tanh, "tanh", "e"},
      {LocalOp::sqrt, "sqrt", "e"},
      {LocalOp::relu, "relu", "e"},
      {LocalOp::transpose, "transpose", "el"},
      {LocalOp::reshape, "reshape", "es"},
      {LocalOp::broadcast, "broadcast", "es"},
      {LocalOp::slice, "slice", "ell"},
      {LocalOp::concat, "concat", "dE"},
      {LocalOp::reduce_sum, "reduce_sum", "el"},
      {LocalOp::reduce_max, "reduce_max", "el"},
      {LocalOp::literal, "constant", "ns"},
      {LocalOp::iota, "iota", "ds"},
      {LocalOp::convert, "convert", "et"},
      {LocalOp::coordinate, "coordinate", "a"},
  };
  return forms;
}

const OperationForm* find_operation(std::string_view word) {
  for (const OperationForm& form : operation_forms()) {
    if (word == form.word) return &form;
  }
  return nullptr;
}

const std::vector<std::string_view>& keywords() {
  static const std::vector<std::string_view> words = [] {
    std::vector<std::string_view> list{"mesh",     "type",         "fn",         "return",       "as",
                                       "sum",      "min",          "ceil",       "nested",       "balanced",
                                       "of",       "at",           "f32",        "f64",          "i32",
                                       "spmd_op",  "redistribute", "distribute", "undistribute", "allreduce",
                                       "dynslice", "allgather",    "alltoall",   "allpermute",   "exchange"};
    for (const OperationForm& form : operation_forms()) list.emplace_back(form.word);
    return list;
  }();
  return words;
}

bool is_keyword(std::string_view word) {
  return std::find(keywords().begin(), keywords().end(), word) != keywords().end();
}

const char* name_of(Redistribute::Kind kind) { return redistributions.of(kind); }

std::optional<Redistribute::Kind> find_redistribution(std::string_view word) { return redistributions.find(word); }

}  // namespace retile::language
