// retile bench
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "evaluation/campaign.h"
#include "evaluation/contender.h"
#include "evaluation/sampler.h"
#include "retile/plan/text.h"
#include "retile/planner/memory_limit.h"
#include "tools/retile/command.h"
#include "tools/retile/engine_option.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace bench_command {

using namespace evaluation;

constexpr const char* examples =
    R"(Problems are sampled as in the paper's evaluation, or read from a file. Each is planned by every
contender, run once and checked, then timed: contenders take turns, repetition by repetition. Results
go to a file of JSON lines, one for each problem and contender; a run that was stopped, also
by Ctrl-C, continues when the same command is given again. Other settings are measured anew, into the same
file if you like; bench/report.py makes tables and plots of the file, and keeps them apart. Problems that a
contender refuses are reported and recorded as skipped; the others are measured.

Contenders: auto, our planners (paper, wide, direct), collectives (wide plans without exchanges),
gather-slice, xla (the XLA partitioner's rules), dtensor-costs (with --machine: what auto takes by the
constants in DTensor's source) and memcpy (the floor: every device copies its target tile once).

Examples:
  retile bench --samples 20 --scale 0.01 --out results.jsonl
  retile bench --problems problems.jsonl --contenders paper,wide,xla --repeat 9 --out results.jsonl
  mpirun -np 8 retile bench --engine mpi --samples 1000 --scale 0.125 --time-limit 600)";

struct Arguments {
  EngineArguments engine;
  std::optional<std::string> problems;
  std::int64_t samples = 1000;
  std::vector<std::int64_t> axes{2, 2, 2};
  std::string rank = "1-6";
  std::string size = "64MB-800MB";
  std::string element_type = "f32";
  std::uint64_t seed = 0;
  bool adversarial = false;
  double scale = 1;
  std::vector<std::string> contenders{"auto", "paper", "wide", "direct", "xla", "memcpy"};
  int repetitions = 5;
  double time_limit = 0;               // seconds; 0: none
  std::optional<std::string> machine;  // a file
  std::string commit = "unknown";
  std::string out = "results.jsonl";
  Command command;  // knows which options were given
};

// The ends of a range such as "1-6"; "4" is "4-4".
std::pair<std::string, std::string> split_range(const std::string& text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string::npos) return {text, text};
  return {text.substr(0, dash), text.substr(dash + 1)};
}

int parse_rank(const std::string& text) {
  constexpr int most_rank = 64;
  int rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool fits = error == std::errc() && end == text.data() + text.size() && 1 <= rank && rank <= most_rank;
  if (!fits) throw UsageError(fmt::format("--rank: '{}' is no rank from 1 to {}; write 3 or 1-6", text, most_rank));
  return rank;
}

std::int64_t parse_size(const std::string& text) {
  const MemoryLimit size = parse_memory_limit({"option --size", text});
  if (const auto* bytes = std::get_if<MemoryBytes>(&size)) return bytes->bytes;
  throw UsageError(fmt::format("--size: '{}' is no size in bytes; write 64MB or 64MB-800MB", text));
}

SampleOptions sample_options(const Arguments& arguments) {
  const auto [least_rank, most_rank] = split_range(arguments.rank);
  const auto [least_size, most_size] = split_range(arguments.size);
  SampleOptions options;
  options.axes = arguments.axes;
  options.least_rank = parse_rank(least_rank);
  options.most_rank = parse_rank(most_rank);
  options.least_bytes = parse_size(least_size);
  options.most_bytes = parse_size(most_size);
  options.element_type = *find_element_type(arguments.element_type);
  options.seed = arguments.seed;
  return options;
}

// The problems of a file, or samples, which are drawn when they are needed.
class ProblemList {
 public:
  ProblemList(const Arguments& arguments, const SampleOptions& sampling)
      : sampling_(sampling), samples_(arguments.problems ? 0 : arguments.samples) {
    for (const char* option : {"--samples", "--axes", "--rank", "--size", "--dtype"}) {
      if (arguments.problems && arguments.command.is_given(option))
        throw UsageError(fmt::format("{} goes with sampled problems, not with --problems", option));
    }
    if (arguments.adversarial) listed_ = adversarial_problems();
    if (arguments.problems) {
      first_line_ = listed_.size();
      lines_ = problem_lines(*arguments.problems);
      for (const SourceText& line : lines_) listed_.push_back(parse_problem(line));
    }
    if (size() == 0) throw UsageError("--samples 0 leaves nothing to measure; add --adversarial");
  }

  std::size_t size() const { return listed_.size() + static_cast<std::size_t>(samples_); }
  Problem at(std::size_t index) const {
    if (index < listed_.size()) return listed_[index];
    return sample_problem(sampling_, static_cast<std::int64_t>(index - listed_.size()));
  }
  // The line of a file that a problem comes from; null where it comes from none.
  const SourceText* line(std::size_t index) const {
    return index < first_line_ || index - first_line_ >= lines_.size() ? nullptr : &lines_[index - first_line_];
  }

 private:
  const SampleOptions& sampling_;
  std::int64_t samples_;
  std::vector<Problem> listed_;
  std::vector<SourceText> lines_;
  std::size_t first_line_ = 0;  // index of the first problem from a file
};

// The handler of signals that stop a run. It passes the signal on to the thread that writes results, which delays
// signals while it writes.
struct Stop {
  static inline std::string message;  // empty: another process writes it
  static inline pthread_t writer;

  static void handle(int signal) {
    if (pthread_equal(pthread_self(), writer) == 0) {
      pthread_kill(writer, signal);
      return;
    }
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
    _exit(128 + signal);
  }
};

// Makes a run that is stopped say how to resume it. Where a file grows too large, writing fails instead.
void prepare_for_signals(const std::string& results, bool speaks) {
  if (speaks) {
    Stop::message = fmt::format("{}retile: stopped; {} is whole, and the same command goes on from there\n",
                                isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", results);
  }
  Stop::writer = pthread_self();
  std::signal(SIGINT, Stop::handle);
  std::signal(SIGTERM, Stop::handle);
  std::signal(SIGXFSZ, SIG_IGN);
}

RunRecord run_record(const Arguments& arguments, const SampleOptions& sampling) {
  RunRecord record;
  record.commit = arguments.commit;
  const EngineArguments& engine = arguments.engine;
  if (engine.engine == "threads") record.threads = thread_count(engine);
  if (engine.engine == "mpi") {
    record.options = {{"transport", engine.transport},
                      {"device_map", engine.device_map},
                      {"staging", std::to_string(engine.staging)}};
  }
  if (arguments.machine) record.options.emplace_back("machine", to_json(machine_of(*arguments.machine)));
  record.seed = arguments.seed;
  record.scale = arguments.scale;
  record.problems = arguments.problems.value_or("");
  record.problems.erase(0, record.problems.rfind('/') + 1);
  record.sampling = sampling;
  return record;
}

int run(const Arguments& arguments) {
  const auto& names = arguments.contenders;
  if (!arguments.machine && std::find(names.begin(), names.end(), "dtensor-costs") != names.end()) {
    throw UsageError("dtensor-costs needs a machine: add --machine FILE (docs/machines.md)");
  }
  const SampleOptions sampling = sample_options(arguments);
  const ProblemList problems(arguments, sampling);
  const std::unique_ptr<Engine> engine = make_engine(arguments.engine, arguments.machine);
  Progress progress("measuring", engine->processes().is_speaker() ? problems.size() : 0);
  Campaign campaign;
  campaign.problem_count = problems.size();
  campaign.problem = [&](std::size_t index) {
    Problem problem = scale_problem(problems.at(index), arguments.scale);
    require_ranks(*engine, problem.device_count());
    return problem;
  };
  campaign.contenders = arguments.contenders;
  PlanOptions options;
  if (arguments.machine) options = on_machine(machine_of(*arguments.machine));
  options.executor = engine->executor(TileOwner::engine);
  campaign.make_contender = [&](const std::string& name, const Problem& problem) {
    return make_contender(name, problem, options);
  };
  campaign.repetitions = arguments.repetitions;
  campaign.time_limit = arguments.time_limit;
  campaign.results = arguments.out;
  campaign.record = run_record(arguments, sampling);
  campaign.after_problem = [&] { progress.advance(); };
  int status = done;
  campaign.after_refusal = [&](std::size_t index, const Refusal& refusal) {
    status = bad_input;
    const std::string message = fmt::format("{}: {}", fmt::join(refusal.contenders, ", "), refusal.fault.message);
    attempt([&]() -> int { throw InputError(message, refusal.fault.hint); }, problems.line(index));
  };
  prepare_for_signals(arguments.out, engine->processes().is_speaker());
  const CampaignSummary summary = run_campaign(campaign, *engine);
  progress.clear();
  if (!engine->processes().is_speaker()) return status;
  if (summary.torn_bytes > 0) {
    fmt::print(stderr, "retile: an earlier run left the last line of {} unfinished; it was left out\n", arguments.out);
  }
  fmt::print("{} of {} problems, {} new results in {}\n", group_digits(static_cast<std::int64_t>(summary.problems)),
             group_digits(static_cast<std::int64_t>(problems.size())),
             group_digits(static_cast<std::int64_t>(summary.results)), arguments.out);
  return status;
}

void add_sampling_options(Command command, Arguments& arguments) {
  add_value(command, "--samples", arguments.samples, "how many problems to sample", "N", whole_number(0, 1000000));
  command.add_option("--problems", arguments.problems, "a file of problems, one a line, instead of sampling")
      .type_name("FILE");
  command.add_flag("--adversarial", arguments.adversarial, "the paper's P1 to P4 before all others");
  command.add_option("--axes", arguments.axes, "sizes of the mesh's axes (2,2,2)")
      .delimiter(',')
      .check(whole_number(1, INT32_MAX))
      .type_name("K,...");
  command.add_option("--rank", arguments.rank, "dimensions of the arrays").capture_default_str().type_name("N-N");
  command.add_option("--size", arguments.size, "bytes of the global arrays").capture_default_str().type_name("B-B");
  command.add_option("--dtype", arguments.element_type, "element type of the arrays")
      .check(known_name(element_type_names))
      .capture_default_str()
      .type_name("TYPE");
  add_value(command, "--seed", arguments.seed, "seed of problems and data", "N", whole_number(0, UINT64_MAX));
  add_value(command, "--scale", arguments.scale, "shrink arrays to this share of their size, layouts kept", "SHARE",
            number_between(1e-9, 1));
}

void add_measuring_options(Command command, Arguments& arguments) {
  command.add_option("--contenders", arguments.contenders, "contenders to measure, from the list below")
      .delimiter(',')
      .check(known_name(contender_names))
      .type_name("NAME,...");
  add_value(command, "--repeat", arguments.repetitions, "timed runs of each contender", "N", whole_number(1, 1000000));
  add_value(command, "--time-limit", arguments.time_limit, "start no problem after so many seconds; 0: no limit", "S",
            number_between(0, 1e9));
  command
      .add_option("--machine", arguments.machine,
                  "a machine file (docs/machines.md): auto takes the plan that is predicted to be the\n"
                  "fastest, and results say what was predicted")
      .type_name("FILE");
  command.add_option("--commit", arguments.commit, "version that was built, recorded with the results")
      .type_name("TEXT");
  command.add_option("--out", arguments.out, "file that results are appended to")
      .capture_default_str()
      .type_name("FILE");
}

}  // namespace bench_command

void add_bench_command(Command app, int* status) {
  using namespace bench_command;
  const auto [command, arguments] =
      add_subcommand(app, "bench", "Measure planners against each other on real data", examples, run, status);
  arguments.command = command;
  add_sampling_options(command, arguments);
  add_engine_options(command, arguments.engine);
  add_measuring_options(command, arguments);
}

}  // namespace retile::command
