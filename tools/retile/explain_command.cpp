// retile explain
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluation/contenders/xla_rules.h"
#include "retile/base/arithmetic.h"
#include "retile/base/json.h"
#include "retile/base/utf8.h"
#include "retile/interchange/compiler_log.h"
#include "retile/plan/text.h"
#include "retile/planner/frame.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

using Json = nlohmann::ordered_json;

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

// --- What is explained.

// A redistribution, with the words that it was asked in.
struct Question {
  Problem problem;
  std::string heading;    // where it comes from
  std::string from = {};  // in another notation; empty in our own
  std::string to = {};
  std::string operation = {};
  std::int64_t count = 1;
  const char* shape_taken = "global";
  int line = 0;  // of the log
};

// What somebody's plan does to a device.
struct Account {
  std::vector<std::string> steps;
  std::int64_t moved_bytes = 0;
  std::int64_t peak_bytes = 0;
};

struct CompilerAccount {
  std::optional<Account> account;
  bool rematerializes = false;  // makes the whole array on every device, though neither end has it so
  std::string remark = {};      // why there is no account, or what is peculiar about it
};

struct Answer {
  CompilerAccount xla;
  Account ours;
  Plan plan;
  std::int64_t element_size = 1;
  std::vector<std::string> sentences = {};
};

Account account_of(const Plan& plan, std::int64_t element_size) {
  Account account{{}, plan.cost.total * element_size, plan.memory.peak * element_size};
  for (const Step& step : plan.steps()) account.steps.push_back(to_string(step));
  return account;
}

std::int64_t array_size(const Problem& problem) { return product(problem.source().global_shape()); }

// The partitioner pads arrays whose sizes do not divide; these are the types it sees.
std::optional<Problem> as_compiled(const Problem& problem) {
  if (typed(problem)) return problem;
  const auto frame = find_frame(problem);
  if (!frame || !frame->view.empty()) return std::nullopt;
  return Problem(problem.id(), frame->source, frame->target, problem.element_type());
}

bool is_on_one_device(const Layout& layout) {
  const auto cuts = layout.cuts();
  return cuts && cuts->mesh.device_count() == 1;
}

CompilerAccount ask_xla(const Problem& problem, const CostModel& model) {
  const std::int64_t element_size = bytes_of(problem.element_type());
  if (problem.source().is_partial()) return {{}, false, "XLA's rules for sums are not in the model"};
  if (is_on_one_device(problem.source()) && problem.device_count() > 1) {
    const std::int64_t bytes = array_size(problem) * element_size;
    return {Account{{"allreduce", "dynslice"}, bytes, bytes}, true,
            "XLA knows no way from one device to several but to send everything to all of them."};
  }
  const auto compiled = as_compiled(problem);
  if (!compiled) return {{}, false, "XLA's rules are modelled for one mesh and for sizes that have a common padding"};
  const Plan plan = contenders::plan_by_xla_rules(*compiled, model);
  CompilerAccount xla{account_of(plan, element_size)};
  const std::int64_t whole = product(compiled->source().global_shape());
  xla.rematerializes = plan.memory.peak == whole && std::max(plan.memory.source, plan.memory.target) < whole;
  if (contenders::xla_fails(*compiled)) xla.remark = "XLA's compiler ends in a failed check here.";
  return xla;
}

// --- Sentences.

std::string times(std::int64_t more, std::int64_t less) {
  const double ratio = static_cast<double>(more) / static_cast<double>(less);
  return fmt::format("{:.{}f} times", ratio, ratio < 10 ? 1 : 0);
}

std::string explain_xla(const Problem& problem, const CompilerAccount& xla) {
  if (!xla.remark.empty()) return xla.remark;
  const std::int64_t larger = std::max(problem.source().local_size(), problem.target().local_size());
  if (xla.rematerializes) {
    return fmt::format(
        "None of XLA's rules leads there, so it makes the whole array on every device, {} the larger tile, "
        "and keeps a part of it.",
        times(xla.account->peak_bytes, larger * bytes_of(problem.element_type())));
  }
  if (xla.account->moved_bytes == 0) return "XLA moves nothing.";
  return fmt::format("XLA's rules take {}.", count_of(static_cast<std::int64_t>(xla.account->steps.size()), "step"));
}

const char* deed_of(StepOp op) {
  switch (op) {
    case StepOp::dynslice:
      return "drops what other devices have too";
    case StepOp::alltoall:
    case StepOp::exchange:
      return "sends every device what it lacks";
    case StepOp::allgather:
      return "gathers what several devices are to have";
    case StepOp::allpermute:
      return "lets tiles change owners";
    case StepOp::reduce:
      return "adds up what several devices have of it";
  }
  throw InternalError("unknown step");
}

std::string explain_ours(const Plan& plan) {
  if (plan.steps().empty()) return "Every device already has what it is to have.";
  std::vector<std::string> deeds;
  for (const Step& step : plan.steps()) {
    const std::string deed = deed_of(op_of(step));
    if (deeds.empty() || deeds.back() != deed) deeds.push_back(deed);
  }
  const bool is_bounded = plan.memory.peak <= std::max(plan.memory.source, plan.memory.target);
  return fmt::format("retile {}{}.", fmt::join(deeds, ", then "),
                     is_bounded ? ", and never holds a tile larger than the larger of source and target" : "");
}

std::string compare(const CompilerAccount& xla, const Account& ours, const PlanCost& cost) {
  const std::string proof = cost.optimal ? "No plan of such steps costs less." : "A cheaper plan is not ruled out.";
  if (!xla.account || ours.moved_bytes == 0) return proof;
  const auto compared = [](std::int64_t theirs, std::int64_t mine) {
    if (theirs == mine) return std::string("as much");
    return theirs > mine ? times(theirs, mine) + " less" : times(mine, theirs) + " more";
  };
  return fmt::format("Beside XLA, it moves {} and holds {}. {}", compared(xla.account->moved_bytes, ours.moved_bytes),
                     compared(xla.account->peak_bytes, ours.peak_bytes), proof);
}

Answer answer(const Question& question, const PlanOptions& options) {
  const std::int64_t element_size = bytes_of(question.problem.element_type());
  Plan plan = make_plan(question.problem, options);
  Answer answer{ask_xla(question.problem, *options.cost_model), account_of(plan, element_size), std::move(plan),
                element_size};
  answer.sentences = {explain_xla(question.problem, answer.xla), explain_ours(answer.plan),
                      compare(answer.xla, answer.ours, answer.plan.cost)};
  return answer;
}

// --- Output.

std::string account_row(const char* who, const Account& account) {
  return fmt::format("  {:<7}{:>18}{:>18}  {}\n", who, group_digits(account.moved_bytes),
                     group_digits(account.peak_bytes),
                     account.steps.empty() ? "nothing to do" : fmt::format("{}", fmt::join(account.steps, ", ")));
}

std::string layout_line(const std::string& foreign, const Layout& layout) {
  const std::string text = describe(layout);
  return foreign.empty() ? fmt::format("  {}\n", text) : fmt::format("  {} is {}\n", printable(foreign), text);
}

std::string render(const Question& question, const Answer& answer, const std::string& remarks) {
  std::string text = Palette::paint(palette_of(stdout).heading, printable(question.heading)) + "\n";
  text += layout_line(question.from, question.problem.source()) + layout_line(question.to, question.problem.target());
  text += remarks;
  text += fmt::format("  {:<7}{:>18}{:>18}  steps\n", "", "bytes moved", "peak bytes");
  if (answer.xla.account) text += account_row("XLA", *answer.xla.account);
  text += account_row("retile", answer.ours);
  text += fmt::format("  {:<7}{:>18}\n", "floor", group_digits(answer.plan.cost.floor * answer.element_size));
  for (const std::string& sentence : answer.sentences) text += fmt::format("  {}\n", sentence);
  return text;
}

Json account_json(const Account& account) {
  return {{"steps", account.steps}, {"moved_bytes", account.moved_bytes}, {"peak_bytes", account.peak_bytes}};
}

std::string to_json(const Question& question, const Answer& answer) {
  const Problem& problem = question.problem;
  Json json{{"format", json_format}, {"id", problem.id()}};
  if (question.line > 0)
    json.update({{"line", question.line}, {"operation", question.operation}, {"count", question.count}});
  if (!question.from.empty())
    json.update({{"from", question.from}, {"to", question.to}, {"shape_taken", question.shape_taken}});
  json["dtype"] = name_of(problem.element_type());
  json["shape"] = problem.source().global_shape();
  json["source"] = describe(problem.source());
  json["target"] = describe(problem.target());
  json["xla"] = answer.xla.account ? account_json(*answer.xla.account) : Json(nullptr);
  if (answer.xla.account) json["xla"]["rematerializes"] = answer.xla.rematerializes;
  json["retile"] = account_json(answer.ours);
  json["retile"]["planner"] = answer.plan.planner;
  json["retile"]["optimal"] = answer.plan.cost.optimal;
  json["floor_bytes"] = answer.plan.cost.floor * answer.element_size;
  json["why"] = answer.sentences;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

class Explainer {
 public:
  explicit Explainer(const Arguments& arguments) : arguments_(arguments) {}

  void explain(const Question& question) {
    const Answer found = answer(question, plan_options(arguments_.problem, question.problem));
    if (arguments_.json) return write_result(to_json(question, found));
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
      problem, fmt::format("{}{}{}", id, name_of(problem.element_type()), to_string(problem.source().global_shape()))};
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
  return read_file(argument);
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
    Question question{{reshard.operation, std::move(read.ends.source), std::move(read.ends.target), array.element_type},
                      {}};
    question.from = reshard.from;
    question.to = reshard.to;
    question.operation = reshard.operation;
    question.count = reshard.count;
    question.shape_taken = is_local ? "local" : "global";
    question.line = diagnose(log_, reshard.from_place, {}).line;
    question.heading = fmt::format(
        "{}:{}: {}{}, {}[{}] {}", log_.name, question.line, reshard.operation.empty() ? "" : reshard.operation + ", ",
        count_of(reshard.count, "time"), array.element_name, fmt::join(array.shape, ","),
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
  return array_size(question.problem) * retile::bytes_of(question.problem.element_type());
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
