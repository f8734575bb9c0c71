// Replays the messages of plans and transfers on a simulated machine, without the data: an independent judge of
// predicted times, on machines that are not here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "bench/simgrid/phases.h"
#include "bench/simgrid/platform.h"
#include "bench/text_lines.h"
#include "evaluation/contender.h"
#include "evaluation/sampler.h"
#include "retile/base/diagnostic.h"
#include "retile/machine/machine.h"
#include "retile/plan/text.h"
#include "retile/planner/planner.h"
#include "retile/transfer/plan.h"
#include "retile/transfer/seconds.h"

namespace retile::bench {
namespace {

struct Arguments {
  std::string machine;
  std::int64_t devices = 0;  // 0: as many as the machine has
  std::string problems;
  std::int64_t samples = 0;
  std::vector<std::int64_t> axes;
  std::int64_t most_messages = 300000;
  std::vector<std::string> contenders{"auto", "wide", "xla"};
  std::string manifest;
};

// What is simulated.
struct Run {
  std::string name;
  std::string plan;  // the contender, or how many arrays there are
  double predicted = 0;
  std::vector<Phase> phases;

  std::size_t messages() const {
    return std::accumulate(phases.begin(), phases.end(), std::size_t{0},
                           [](std::size_t sum, const Phase& phase) { return sum + phase.messages.size(); });
  }
};

double seconds_of(std::int64_t picoseconds) { return 1e-12 * static_cast<double>(picoseconds); }

// The machine without its copies, which are not simulated; as large as asked for, of hosts like its first.
Machine machine_of(const Arguments& arguments) {
  Machine machine = read_machine(arguments.machine);
  machine.copy.clear();
  if (arguments.devices == 0 || arguments.devices == machine.device_count()) return machine;
  const auto devices = static_cast<std::int64_t>(machine.hosts[0].size());
  if (machine.hosts.size() == 1 || arguments.devices % devices != 0) {
    throw InputError(fmt::format("{} devices are not so many hosts as the machine's first", arguments.devices),
                     fmt::format("hosts of {} devices, and links between them", devices));
  }
  const auto hosts = static_cast<std::size_t>(arguments.devices / devices);
  machine.links.resize(1);
  machine.links.resize(hosts, machine.links[0]);
  machine.hosts.resize(hosts);
  Device next = 0;
  for (std::vector<Device>& host : machine.hosts) {
    host.resize(static_cast<std::size_t>(devices));
    for (Device& device : host) device = next++;
  }
  return machine;
}

std::vector<Problem> problems_of(const Arguments& arguments) {
  std::vector<Problem> problems;
  if (!arguments.problems.empty()) problems = read_problems(arguments.problems);
  evaluation::SampleOptions options;
  if (!arguments.axes.empty()) options.axes = arguments.axes;
  for (std::int64_t i = 0; i < arguments.samples; ++i) problems.push_back(evaluation::sample_problem(options, i));
  return problems;
}

void add_problem(const Problem& problem, const Arguments& arguments, const Machine& machine, std::vector<Run>& runs) {
  require_devices(machine, problem.device_count());
  for (const std::string& name : arguments.contenders) {
    const Plan plan = *evaluation::make_contender(name, problem, on_machine(machine)).plan;
    if (plan.cost.floor == 0) continue;
    runs.push_back({problem.id(), name, seconds_of(plan.time->total),
                    phases_of(plan.movement, bytes_of(problem.element_type()), machine)});
  }
}

Run run_of_transfer(const std::string& path, const Machine& machine) {
  transfer::Manifest manifest = transfer::parse_manifest(read_lines(path));
  require_devices(machine, manifest.device_count());
  const std::string arrays = count_of(static_cast<std::int64_t>(manifest.arrays.size()), "array");
  const transfer::TransferPlan plan(std::move(manifest), no_memory_limit, machine.host_numbers(), TileUse::kept,
                                    transfer::message_form(machine));
  const double predicted = seconds_of(transfer::predict_time(plan, seconds_model(machine)).predicted.picoseconds);
  return {path.substr(path.rfind('/') + 1), arrays, predicted, phases_of(plan)};
}

void print_summary(std::vector<double> errors) {
  if (errors.empty()) return;
  std::sort(errors.begin(), errors.end());
  const auto share = [&](double part) {
    return 100 * errors[static_cast<std::size_t>(part * static_cast<double>(errors.size() - 1))];
  };
  fmt::print("\npredicted against simulated: error {:.1f} % (median), {:.1f} % (95 % of {}), {:.1f} % (most)\n",
             share(0.5), share(0.95), count_of(static_cast<std::int64_t>(errors.size()), "run"), share(1));
}

void run(const Arguments& arguments) {
  const Machine machine = machine_of(arguments);
  std::vector<Run> runs;
  for (const Problem& problem : problems_of(arguments)) add_problem(problem, arguments, machine, runs);
  if (!arguments.manifest.empty()) runs.push_back(run_of_transfer(arguments.manifest, machine));
  const auto is_simulated = [&](const Run& one) {
    return one.messages() <= static_cast<std::size_t>(arguments.most_messages);
  };
  std::vector<std::vector<Phase>> phases;
  for (const Run& one : runs) {
    if (is_simulated(one)) phases.push_back(one.phases);
  }
  const std::vector<double> simulated = Platform(machine).simulate(phases);
  fmt::print("{}: {} on {}; copies take no time\n\n", machine.name, count_of(machine.device_count(), "device"),
             count_of(static_cast<std::int64_t>(machine.hosts.size()), "host"));
  fmt::print("{:24} {:14} {:>9} {:>7} {:>13} {:>13} {:>8}\n", "problem", "plan", "messages", "phases", "predicted ms",
             "simulated ms", "error %");
  std::vector<double> errors;
  auto next = simulated.begin();
  for (const Run& one : runs) {
    fmt::print("{:24} {:14} {:9} {:7} {:13.4f}", one.name, one.plan, one.messages(), one.phases.size(),
               1e3 * one.predicted);
    if (!is_simulated(one)) {
      fmt::print(" {:>13} {:>8}\n", "-", "-");
      continue;
    }
    const double error = one.predicted / *next - 1;
    errors.push_back(std::abs(error));
    fmt::print(" {:13.4f} {:8.1f}\n", 1e3 * *next++, 100 * error);
  }
  print_summary(std::move(errors));
}

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("MACHINE", arguments.machine, "machine file (docs/formats.md)")->required();
  app.add_option("--devices", arguments.devices, "as if it had so many, on hosts like its first");
  app.add_option("--problems", arguments.problems, "problems of as many devices, one a line as JSON");
  app.add_option("--samples", arguments.samples, "so many problems of the paper's family");
  app.add_option("--axes", arguments.axes, "sizes of the axes of their mesh (2,2,2)")->delimiter(',');
  app.add_option("--contenders", arguments.contenders, "whose plans of them are replayed, as retile bench has them")
      ->delimiter(',');
  app.add_option("--most-messages", arguments.most_messages, "plans that send more are not simulated")
      ->capture_default_str();
  app.add_option("--manifest", arguments.manifest, "a transfer of as many devices, one array a line");
}

constexpr Program<Arguments> simgrid_replay{
    "simgrid_replay", "Replays the messages of plans and transfers on a simulated machine, without the data.", declare,
    run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_program(retile::bench::simgrid_replay, argument_count, arguments);
}
