// retile explain
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "retile/explanation/log.h"
#include "retile/interchange/compiler_log.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace explain_command {

using explanation::Explanation;
using explanation::Question;

constexpr const char* examples =
    R"(For each redistribution: what XLA's compiler does by a model of its rules, what retile would do, the
floor (what some device must receive, whatever the plan), and why. Bytes are per device; those that are
moved are counted by the cost model, and a peak is the largest tile on the way.

Instead of SRC and DST, a compiler's log may be given, as a file or as its text; - is standard input. Each
"Involuntary full rematerialization" in it is explained, equal ones once, the largest arrays first. XLA prints the
shape that one device holds; --global-shape takes it for that of the whole array.

Examples:
  retile explain --shape 'f32[16,16,16]' '{devices=[2,1,4]<=[4,2]T(1,0)}' '{devices=[1,8,1]<=[8]}'
  retile explain --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]'
  python train.py 2>&1 | retile explain -)";

struct Arguments {
  ProblemArguments problem;
  bool global_shape = false;
  bool json = false;
};

class Explainer {
 public:
  explicit Explainer(const Arguments& arguments) : arguments_(arguments) {}

  void explain(const Question& question) {
    const Explanation found =
        explanation::explain(question.problem, plan_options(arguments_.problem, question.problem));
    if (arguments_.json) return write_result(to_json(question, found) + "\n");
    ProblemArguments remarked;  // the answer has the other remarks
    remarked.notation = arguments_.problem.notation;
    write_result((std::exchange(is_first_, false) ? "" : "\n") +
                 to_string(question, found, palette_of(stdout), remarks_on(remarked, question.problem)));
  }

 private:
  const Arguments& arguments_;
  bool is_first_ = true;
};

// --- Problems.

Question question_of(const ProblemArguments& arguments, const Problem& problem) {
  Question question = explanation::question_of(problem);
  if (!arguments.shape) return question;
  question.from = *arguments.source;
  question.to = *arguments.target;
  if (arguments.is_local_shape) {
    question.heading += fmt::format(" in all, from {} per device", *arguments.shape);
    question.shape_taken = "local";
  }
  return question;
}

int explain_problems(const Arguments& arguments) {
  Explainer explainer(arguments);
  return for_each_problem(arguments.problem, "explaining",
                          [&](const Problem& problem) { explainer.explain(question_of(arguments.problem, problem)); });
}

// --- Logs.

SourceText log_of(const std::string& argument) {
  if (interchange::has_warning(argument)) return {"argument LOG", argument};
  return read_log(argument);
}

int explain_log(const Arguments& arguments) {
  planner_options(arguments.problem);
  if (arguments.problem.relabel) throw UsageError("--relabel goes with SRC and DST, or --problems FILE");
  const SourceText log = log_of(*arguments.problem.source);
  const explanation::LogQuestions found =
      explanation::read_log(log, {given_mesh(arguments.problem), given_array(arguments.problem),
                                  arguments.problem.is_local_shape, arguments.global_shape});
  if (found.questions.empty() && found.faults.empty()) {
    throw InputError(diagnose(log, {0, 0}, "there is no 'Involuntary full rematerialization' in this log",
                              "a redistribution is given by SRC and DST"));
  }
  int status = done;
  for (const Diagnostic& fault : found.faults) status = fail(bad_input, to_string(fault, palette_of(stderr)));
  Explainer explainer(arguments);
  Progress progress("explaining", found.questions.size());
  for (const Question& question : found.questions) {
    status = std::max(status, attempt([&] { return explainer.explain(question), done; }));
    progress.advance();
  }
  return status;
}

int run(const Arguments& arguments) {
  if (arguments.json && arguments.problem.notation) throw UsageError("--notation goes with text, not with --json");
  const bool is_log = arguments.problem.source && !arguments.problem.target && !arguments.problem.problems;
  if (is_log) return explain_log(arguments);
  if (arguments.global_shape) throw UsageError("--global-shape goes with a compiler's log");
  return explain_problems(arguments);
}

}  // namespace explain_command

void add_explain_command(Command app, int* status) {
  using namespace explain_command;
  const auto [command, arguments] = add_subcommand(
      app, "explain", "Say what a compiler does with redistributions, and what could be done", examples, run, status);
  add_problem_options(command, arguments.problem);
  command.add_flag("--global-shape", arguments.global_shape, "shapes in a log are those of whole arrays");
  command.add_flag("--json", arguments.json, "one answer a line, as JSON");
}

}  // namespace retile::command
