// retile bench
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "retile/base/error.h"
#include "retile/evaluation/contender.h"
#include "retile/evaluation/measure.h"
#include "retile/evaluation/results.h"
#include "retile/evaluation/sampler.h"
#include "retile/planner/memory_limit.h"
#include "retile/render/terminal.h"
#include "tools/retile/command.h"
#include "tools/retile/engine_option.h"
#include "tools/retile/input.h"
#include "tools/retile/progress.h"
#include "tools/retile/usage.h"

namespace retile::command {
namespace {

constexpr const char* examples =
    R"(Problems are sampled as in the paper's evaluation, or read from a file. Each is planned by every
contender, run once and checked, then timed: contenders take turns, repetition by repetition. Results
go to a file of JSON lines, one for each problem and contender; a run that is stopped goes on where it
was when the same command is given again. bench/report.py makes tables and plots of the file.

Contenders: our planners (paper, wide, direct), gather-slice, xla (the XLA partitioner's rules) and
memcpy (the floor: every device copies its target tile once).

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
  std::vector<std::string> contenders{"paper", "wide", "direct", "xla", "memcpy"};
  int repetitions = 5;
  double time_limit = 0;  // seconds; 0: none
  std::string commit = "unknown";
  std::string out = "results.jsonl";
};

// "1-6", or "4" for "4-4".
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

// Those of a file, and samples, which are drawn when they are asked for.
class ProblemList {
 public:
  ProblemList(const Arguments& arguments, const SampleOptions& sampling)
      : sampling_(sampling), samples_(arguments.problems ? 0 : arguments.samples) {
    if (arguments.adversarial) listed_ = adversarial_problems();
    if (!arguments.problems) return;
    for_each_line(read_file(*arguments.problems),
                  [&](const SourceText& line) { listed_.push_back(parse_problem(line)); });
  }

  std::size_t size() const { return listed_.size() + static_cast<std::size_t>(samples_); }
  Problem at(std::size_t index) const {
    if (index < listed_.size()) return listed_[index];
    return sample_problem(sampling_, static_cast<std::int64_t>(index - listed_.size()));
  }

 private:
  const SampleOptions& sampling_;
  std::int64_t samples_;
  std::vector<Problem> listed_;
};

class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments), sampling_(sample_options(arguments)), engine_(make_engine(arguments.engine)) {}

  void run() {
    const ProblemList problems(arguments_, sampling_);
    if (engine_->is_speaker()) file_ = std::make_unique<ResultsFile>(arguments_.out);
    const std::size_t before = file_ ? file_->result_count() : 0;
    Progress progress("measuring", problems.size());
    std::size_t done = 0;
    for (; done < problems.size() && !is_time_up(); ++done) {
      measure_problem(scale_problem(problems.at(done), arguments_.scale));
      if (engine_->is_speaker()) progress.advance();
    }
    progress.clear();
    if (!file_) return;
    fmt::print("{} of {} problems, {} new results in {}\n", group_digits(static_cast<std::int64_t>(done)),
               group_digits(static_cast<std::int64_t>(problems.size())),
               group_digits(static_cast<std::int64_t>(file_->result_count() - before)), arguments_.out);
  }

 private:
  // What one process decides, all do: the speaker is the first that says something.
  std::string decided(const std::string& mine) {
    return engine_->first_of(engine_->is_speaker() ? std::optional(mine) : std::nullopt).value_or(mine);
  }

  bool is_time_up() {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    return decided(arguments_.time_limit > 0 && elapsed.count() > arguments_.time_limit ? "stop" : "go on") == "stop";
  }

  // A letter for each contender: + where there is no result yet.
  std::string missing(const Problem& problem) const {
    std::string letters;
    for (const std::string& name : arguments_.contenders) {
      letters += file_ && file_->has(problem.id(), engine_->name(), name) ? '-' : '+';
    }
    return letters;
  }

  void measure_problem(const Problem& problem) {
    const std::string wanted = decided(missing(problem));
    std::vector<std::string> lines;
    std::vector<Contender> contenders;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != '+') continue;
      const std::string& name = arguments_.contenders[i];
      try {
        contenders.push_back(make_contender(name, problem));
      } catch (const RuntimeError& error) {
        lines.push_back(to_json(problem, engine_->name(), name, error.what()));
      }
    }
    if (!contenders.empty()) {
      const MeasureOptions options{arguments_.repetitions, arguments_.seed};
      const std::vector<Measurement> measurements = measure(problem, contenders, *engine_, options);
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        lines.push_back(to_json(problem, engine_->name(), contenders[i], measurements[i]));
      }
    }
    if (!file_ || lines.empty()) return;
    if (!recorded_) lines.insert(lines.begin(), to_json(record(problem)));
    recorded_ = true;
    file_->append(lines);
  }

  RunRecord record(const Problem& problem) const {
    const std::int64_t devices = problem.mesh().device_count();
    RunRecord record;
    record.commit = arguments_.commit;
    record.engine = engine_->name();
    record.devices = devices;
    record.processes = devices / static_cast<std::int64_t>(engine_->devices(devices).size());
    record.seed = arguments_.seed;
    record.scale = arguments_.scale;
    record.repetitions = arguments_.repetitions;
    record.problems = arguments_.problems.value_or("");
    record.sampling = sampling_;
    return record;
  }

  const Arguments& arguments_;
  const SampleOptions sampling_;
  const std::unique_ptr<Engine> engine_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<ResultsFile> file_;  // of the speaker
  bool recorded_ = false;              // how the results are made
};

void add_sampling_options(CLI::App& command, Arguments& arguments) {
  command.add_option("--samples", arguments.samples, "how many problems to sample")
      ->check(whole_number(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--problems", arguments.problems, "a file of problems, one a line, instead of sampling")
      ->type_name("FILE");
  command.add_flag("--adversarial", arguments.adversarial, "the paper's P1 to P4 before all others");
  command.add_option("--axes", arguments.axes, "sizes of the mesh's axes (2,2,2)")
      ->delimiter(',')
      ->check(whole_number(1, INT32_MAX))
      ->type_name("K,...");
  command.add_option("--rank", arguments.rank, "dimensions of the arrays")->capture_default_str()->type_name("N-N");
  command.add_option("--size", arguments.size, "bytes of the global arrays")->capture_default_str()->type_name("B-B");
  command.add_option("--dtype", arguments.element_type, "element type of the arrays")
      ->check(known_name(element_type_names, find_element_type))
      ->capture_default_str()
      ->type_name("TYPE");
  command.add_option("--seed", arguments.seed, "seed of problems and data")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--scale", arguments.scale, "shrink arrays to this share of their size, layouts kept")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str()
      ->type_name("SHARE");
}

void add_measuring_options(CLI::App& command, Arguments& arguments) {
  command.add_option("--contenders", arguments.contenders, "what to measure, of those below")
      ->delimiter(',')
      ->check(known_name(contender_names, is_contender))
      ->type_name("NAME,...");
  command.add_option("--repeat", arguments.repetitions, "timed runs of each contender")
      ->check(whole_number(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--time-limit", arguments.time_limit, "start no problem after so many seconds; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("S");
  command.add_option("--commit", arguments.commit, "what was built, for the record")->type_name("TEXT");
  command.add_option("--out", arguments.out, "the file of results, added to")->capture_default_str()->type_name("FILE");
}

}  // namespace

void add_bench_command(CLI::App& app, int* status) {
  CLI::App* command = app.add_subcommand("bench", "Measure planners against each other on real data");
  const auto arguments = std::make_shared<Arguments>();
  add_sampling_options(*command, *arguments);
  add_engine_options(*command, arguments->engine);
  add_measuring_options(*command, *arguments);
  command->footer(examples);
  command->callback([arguments, status] {
    Bench(*arguments).run();
    *status = done;
  });
}

}  // namespace retile::command
