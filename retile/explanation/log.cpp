#include "retile/explanation/log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/interchange/compiler_log.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"

namespace retile::explanation {
namespace {

using interchange::ArrayText;
using interchange::ReportedReshard;

ArrayText array_of(const SourceText& log, const ReportedReshard& reshard, const LogOptions& options) {
  if (reshard.array) return *reshard.array;
  if (options.array) return *options.array;
  throw InputError(diagnose(log, {reshard.from_place.begin, reshard.to_place.end}, "this warning names no array",
                            "give it, as in --shape 'f32[16,1024,4096]'"));
}

Question read_question(const SourceText& log, const ReportedReshard& reshard, const LogOptions& options) {
  const ArrayText array = array_of(log, reshard, options);
  const bool is_local = reshard.array ? !options.has_global_shapes : options.is_local_array;
  const interchange::LocalEnds read = interchange::parse_reshard(log, reshard, array.shape, is_local, options.mesh);
  Question question = question_of(Problem(reshard.operation, read.ends.source, read.ends.target, array.element_type));
  question.from = reshard.from;
  question.to = reshard.to;
  question.shape_taken = is_local ? "local" : "global";
  question.operation = reshard.operation;
  question.line = diagnose(log, reshard.from_place, Fault{}).line;
  question.count = reshard.count;
  question.heading = fmt::format("{}:{}: {}{}, {}[{}] {}", log.name, question.line,
                                 reshard.operation.empty() ? "" : reshard.operation + ", ",
                                 count_of(reshard.count, "time"), array.element_name, fmt::join(array.shape, ","),
                                 is_local ? fmt::format("taken as per device: {} in all", retile::to_string(read.shape))
                                          : "taken as the whole array");
  return question;
}

std::int64_t array_bytes(const Question& question) {
  return product(question.problem.source().global_shape()) * bytes_of(question.problem.element_type());
}

}  // namespace

LogQuestions read_log(const SourceText& log, const LogOptions& options) {
  interchange::CompilerLog read = interchange::read_compiler_log(log);
  LogQuestions found{{}, std::move(read.faults)};
  for (const ReportedReshard& reshard : read.reshards) {
    try {
      found.questions.push_back(read_question(log, reshard, options));
    } catch (const InputError& error) {
      found.faults.push_back(error.diagnostic());
    }
  }
  std::stable_sort(found.questions.begin(), found.questions.end(),
                   [](const Question& a, const Question& b) { return array_bytes(a) > array_bytes(b); });
  return found;
}

}  // namespace retile::explanation
