#include "retile/explanation/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/base/utf8.h"
#include "retile/contenders/xla_rules.h"
#include "retile/costs/cost_model.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"

namespace retile::explanation {
namespace {

using Json = nlohmann::ordered_json;

Account account_of(const Plan& plan, std::int64_t element_size) {
  const std::int64_t received = price(volume_model(), plan.movement, element_size).total;
  Account account{{}, received * element_size, plan.memory.peak * element_size};
  for (const Step& step : plan.steps()) account.steps.push_back(to_string(step));
  return account;
}

bool is_on_one_device(const Layout& layout) {
  const auto cuts = layout.cuts();
  return cuts && cuts->mesh.device_count() == 1;
}

CompilerAccount ask_xla(const Problem& problem, const PlanOptions& options, std::optional<std::int64_t>& picoseconds) {
  const std::int64_t element_size = bytes_of(problem.element_type());
  if (is_on_one_device(problem.source()) && problem.device_count() > 1) {
    const std::int64_t bytes = product(problem.source().global_shape()) * element_size;
    return {Account{{"allreduce", "dynslice"}, bytes, bytes}, true,
            "XLA knows no way from one device to several but to send everything to all of them."};
  }
  std::optional<Problem> padded;
  try {
    padded = contenders::padded_for_xla(problem);
  } catch (const InputError& error) {
    return {{}, false, error.diagnostic().message};
  }
  const Plan plan = contenders::plan_by_xla_rules(*padded);
  CompilerAccount xla{account_of(plan, element_size)};
  if (options.machine != nullptr) picoseconds = options.machine->time(plan.movement, 0, element_size).total;
  const std::int64_t whole = product(padded->source().global_shape());
  xla.rematerializes = plan.memory.peak == whole && std::max(plan.memory.source, plan.memory.target) < whole;
  if (contenders::xla_fails(*padded)) xla.remark = "XLA's compiler ends in a failed check here.";
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
  std::string proof = cost.optimal ? "No plan of such steps costs less." : "A cheaper plan is not ruled out.";
  if (!xla.account || ours.moved_bytes == 0) return proof;
  const auto compared = [](std::int64_t theirs, std::int64_t mine) {
    if (theirs == mine) return std::string("as much");
    return theirs > mine ? times(theirs, mine) + " less" : times(mine, theirs) + " more";
  };
  return fmt::format("Beside XLA, it moves {} and holds {}. {}", compared(xla.account->moved_bytes, ours.moved_bytes),
                     compared(xla.account->peak_bytes, ours.peak_bytes), proof);
}

// "It takes 21.2 ms: 18 of 21.2 …", and what XLA's plan takes beside it.
std::string explain_time(const PlanTime& time, const std::optional<std::int64_t>& xla) {
  std::string text = fmt::format("It {}.", describe_time(time));
  if (xla && *xla != time.total) text += fmt::format(" XLA's plan would take {}.", duration_text(*xla));
  return text;
}

Json time_json(const PlanTime& time) {
  const auto seconds = [](std::int64_t picoseconds) { return static_cast<double>(picoseconds) / 1e12; };
  return {{"machine", time.machine},
          {"total", seconds(time.total)},
          {"lower_bound", seconds(time.lower_bound.picoseconds)},
          {"waits_for", retile::to_string(longest_wait(time))}};
}

// --- Output.

std::string account_row(const char* who, const Account& account) {
  return fmt::format("  {:<7}{:>18}{:>18}  {}\n", who, group_digits(account.moved_bytes),
                     group_digits(account.peak_bytes),
                     account.steps.empty() ? "nothing to do" : fmt::format("{}", fmt::join(account.steps, ", ")));
}

std::string layout_line(const std::string& foreign, const std::string& text) {
  return foreign.empty() ? fmt::format("  {}\n", text) : fmt::format("  {} is {}\n", printable(foreign), text);
}

Json account_json(const Account& account) {
  return {{"steps", account.steps}, {"moved_bytes", account.moved_bytes}, {"peak_bytes", account.peak_bytes}};
}

}  // namespace

Explanation explain(const Problem& problem, const PlanOptions& options) {
  const std::int64_t element_size = bytes_of(problem.element_type());
  const Plan plan = make_plan(problem, options);
  Explanation explanation{
      {}, account_of(plan, element_size), plan.planner, plan.cost.optimal, plan.cost.floor * element_size};
  explanation.xla = ask_xla(problem, options, explanation.xla_picoseconds);
  explanation.time = plan.time;
  explanation.sentences = {explain_xla(problem, explanation.xla), explain_ours(plan),
                           compare(explanation.xla, explanation.ours, plan.cost)};
  if (plan.time) explanation.sentences.push_back(explain_time(*plan.time, explanation.xla_picoseconds));
  return explanation;
}

Question question_of(const Problem& problem) {
  const std::string id = problem.id().empty() ? "" : problem.id() + ": ";
  return {
      problem,
      fmt::format("{}{}{}", id, name_of(problem.element_type()), retile::to_string(problem.source().global_shape())),
      describe(problem.source()), describe(problem.target())};
}

std::string to_string(const Question& question, const Explanation& explanation, const Palette& palette,
                      std::string_view remarks) {
  std::string text = Palette::paint(palette.heading, printable(question.heading)) + "\n";
  text += layout_line(question.from, question.source) + layout_line(question.to, question.target);
  text += remarks;
  text += fmt::format("  {:<7}{:>18}{:>18}  steps\n", "", "bytes moved", "bytes in a tile");
  if (explanation.xla.account) text += account_row("XLA", *explanation.xla.account);
  text += account_row("retile", explanation.ours);
  text += fmt::format("  {:<7}{:>18}\n", "floor", group_digits(explanation.floor_bytes));
  for (const std::string& sentence : explanation.sentences) text += fmt::format("  {}\n", sentence);
  return text;
}

std::string to_json(const Question& question, const Explanation& explanation) {
  const Problem& problem = question.problem;
  Json json{{"format", json_format}, {"id", problem.id()}};
  if (question.line > 0) {
    json.update({{"line", question.line}, {"operation", question.operation}, {"count", question.count}});
  }
  if (!question.from.empty()) {
    json.update({{"from", question.from}, {"to", question.to}, {"shape_taken", question.shape_taken}});
  }
  json["dtype"] = name_of(problem.element_type());
  json["shape"] = problem.source().global_shape();
  json["source"] = question.source;
  json["target"] = question.target;
  json["xla"] = explanation.xla.account ? account_json(*explanation.xla.account) : Json(nullptr);
  if (explanation.xla.account) json["xla"]["rematerializes"] = explanation.xla.rematerializes;
  json["retile"] = account_json(explanation.ours);
  json["retile"]["planner"] = explanation.planner;
  json["retile"]["optimal"] = explanation.optimal;
  if (explanation.time) json["retile"]["seconds"] = time_json(*explanation.time);
  if (explanation.xla_picoseconds && explanation.xla.account) {
    json["xla"]["seconds"] = static_cast<double>(*explanation.xla_picoseconds) / 1e12;
  }
  json["floor_bytes"] = explanation.floor_bytes;
  json["why"] = explanation.sentences;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace retile::explanation
