// retile explain
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluation/explanation.h"
#include "retile/base/arithmetic.h"
#include "retile/base/utf8.h"
#include "retile/interchange/compiler_log.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

constexpr const char* examples =
    R"(For each redistribution: what XLA's compiler does by a model of its rules, what retile would do, the
floor (what some device must receive, whatever the plan), and why. Bytes are per device; those that are
moved are counted by the cost model, and a peak is the largest tile on the way.

Instead of SRC and DST, a compiler's log may be given, as a file or as its text; - is standard input. Each
"Involuntary full rematerialization" in it is explained, doubles once, largest arrays first. XLA prints the
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

// A redistribution, and where it comes from.
struct Question {
  Problem problem;
  std::string heading;
  evaluation::Origin origin;
};

// --- Output.

std::string account_row(const char* who, const evaluation::Account& account) {
  return fmt::format("  {:<7}{:>18}{:>18}  {}\n", who, group_digits(account.moved_bytes),
                     group_digits(account.peak_bytes),
                     account.steps.empty() ? "nothing to do" : fmt::format("{}", fmt::join(account.steps, ", ")));
}

std::string layout_line(const std::string& foreign, const std::string& text) {
  return foreign.empty() ? fmt::format("  {}\n", text) : fmt::format("  {} is {}\n", printable(foreign), text);
}

std::string render(const Question& question, const evaluation::Explanation& answer, const std::string& remarks) {
  std::string text = Palette::paint(palette_of(stdout).heading, printable(question.heading)) + "\n";
  text += layout_line(question.origin.from, question.origin.source) +
          layout_line(question.origin.to, question.origin.target);
  text += remarks;
  text += fmt::format("  {:<7}{:>18}{:>18}  steps\n", "", "bytes moved", "peak bytes");
  if (answer.xla.account) text += account_row("XLA", *answer.xla.account);
  text += account_row("retile", answer.ours);
  text += fmt::format("  {:<7}{:>18}\n", "floor", group_digits(answer.floor_bytes));
  for (const std::string& sentence : answer.sentences) text += fmt::format("  {}\n", sentence);
  return text;
}

class Explainer {
 public:
  explicit Explainer(const Arguments& arguments) : arguments_(arguments) {}

  void explain(const Question& question) {
    const evaluation::Explanation found =
        evaluation::explain(question.problem, plan_options(arguments_.problem, question.problem));
    if (arguments_.json) return write_result(evaluation::to_json(question.problem, question.origin, found) + "\n");
    ProblemArguments remarked;  // the rest of the remarks is in the answer
    remarked.notation = arguments_.problem.notation;
    write_result((std::exchange(is_first_, false) ? "" : "\n") +
                 render(question, found, remarks_on(remarked, question.problem)));
  }

 private:
  const Arguments& arguments_;
  bool is_first_ = true;
};

// --- Problems.

Question question_of(const ProblemArguments& arguments, const Problem& problem) {
  const std::string id = problem.id().empty() ? "" : problem.id() + ": ";
  Question question{
      problem,
      fmt::format("{}{}{}", id, name_of(problem.element_type()), to_string(problem.source().global_shape())),
      {describe(problem.source()), describe(problem.target())}};
  if (!arguments.shape) return question;
  question.origin.from = *arguments.source;
  question.origin.to = *arguments.target;
  if (arguments.is_local_shape) {
    question.heading += fmt::format(" in all, from {} per device", *arguments.shape);
    question.origin.shape_taken = "local";
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

class LogReader {
 public:
  LogReader(const Arguments& arguments, const SourceText& log)
      : arguments_(arguments),
        log_(log),
        mesh_(given_mesh(arguments.problem)),
        array_(given_array(arguments.problem)) {}

  Question question_of(const interchange::ReportedReshard& reshard) const {
    const interchange::ArrayText array = array_of(reshard);
    const bool is_local = reshard.array ? !arguments_.global_shape : arguments_.problem.is_local_shape;
    interchange::LocalEnds read = interchange::parse_reshard(log_, reshard, array.shape, is_local, mesh_);
    evaluation::Origin origin{describe(read.ends.source),
                              describe(read.ends.target),
                              reshard.from,
                              reshard.to,
                              is_local ? "local" : "global",
                              reshard.operation,
                              diagnose(log_, reshard.from_place, {}).line,
                              reshard.count};
    Question question{{reshard.operation, std::move(read.ends.source), std::move(read.ends.target), array.element_type},
                      {},
                      std::move(origin)};
    question.heading = fmt::format(
        "{}:{}: {}{}, {}[{}] {}", log_.name, question.origin.line,
        reshard.operation.empty() ? "" : reshard.operation + ", ", count_of(reshard.count, "time"), array.element_name,
        fmt::join(array.shape, ","),
        is_local ? fmt::format("taken as per device: {} in all", to_string(read.shape)) : "taken as the whole array");
    return question;
  }

 private:
  interchange::ArrayText array_of(const interchange::ReportedReshard& reshard) const {
    if (reshard.array) return *reshard.array;
    if (array_) return *array_;
    throw InputError(diagnose(log_, {reshard.from_place.begin, reshard.to_place.end}, "this warning names no array",
                              "give it, as in --shape 'f32[16,1024,4096]'"));
  }

  const Arguments& arguments_;
  const SourceText& log_;
  const std::optional<interchange::PlacedMesh> mesh_;
  const std::optional<interchange::ArrayText> array_;
};

std::int64_t bytes_of(const Question& question) {
  return product(question.problem.source().global_shape()) * retile::bytes_of(question.problem.element_type());
}

int explain_log(const Arguments& arguments) {
  planner_options(arguments.problem);
  const SourceText log = log_of(*arguments.problem.source);
  const interchange::CompilerLog read = interchange::read_compiler_log(log);
  if (read.reshards.empty() && read.faults.empty()) {
    throw InputError(diagnose(log, {0, 0}, "there is no 'Involuntary full rematerialization' in this log",
                              "a redistribution is given by SRC and DST"));
  }
  int status = done;
  const auto report = [&](const InputError& error) {
    status = fail(bad_input, to_string(error.diagnostic(), palette_of(stderr)));
  };
  for (const Diagnostic& fault : read.faults) report(InputError(fault));
  const LogReader reader(arguments, log);
  std::vector<Question> questions;
  for (const interchange::ReportedReshard& reshard : read.reshards) {
    try {
      questions.push_back(reader.question_of(reshard));
    } catch (const InputError& error) {
      report(error);
    }
  }
  std::stable_sort(questions.begin(), questions.end(),
                   [](const Question& a, const Question& b) { return bytes_of(a) > bytes_of(b); });
  Explainer explainer(arguments);
  Progress progress("explaining", questions.size());
  for (const Question& question : questions) {
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

}  // namespace

void add_explain_command(CLI::App& app, int* status) {
  CLI::App* command =
      app.add_subcommand("explain", "Say what a compiler does with redistributions, and what could be done");
  const auto arguments = std::make_shared<Arguments>();
  add_problem_options(*command, arguments->problem);
  command->add_flag("--global-shape", arguments->global_shape, "shapes in a log are those of whole arrays");
  command->add_flag("--json", arguments->json, "one answer a line, as JSON");
  command->footer(examples);
  command->callback([arguments, status] { *status = run(*arguments); });
}

}  // namespace retile::command
