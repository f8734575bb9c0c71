// Measures the MPI engine beside what others offer: MPI_Alltoallw, ScaLAPACK, FFTW. Under mpirun, with as many ranks as
// the problems have devices; results as those of `retile bench`.
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/mpi/mpi_program.h"
#include "bench/mpi/peers/peers.h"
#include "bench/text_lines.h"
#include "evaluation/campaign.h"
#include "evaluation/sampler.h"
#include "retile/base/error.h"
#include "retile/engines/mpi/mpi_engine.h"

namespace retile::bench {
namespace {

using namespace evaluation;

struct Arguments {
  std::string problems = RETILE_SOURCE_DIR "/bench/mpi/peers/matrices.jsonl";
  std::vector<std::string> contenders{"auto", "memcpy", "direct", "wide", "paper", "alltoallw"};
  double scale = 1;
  int repetitions = 5;
  double time_limit = 0;
  bool own_memory = false;
  std::string commit = "unknown";
  std::string out = "peers.jsonl";
};

void run(const Arguments& arguments) {
  const std::unique_ptr<Engine> engine = mpi::make_mpi_engine(MPI_COMM_WORLD);
  const std::vector<Problem> problems = read_problems(arguments.problems);
  Campaign campaign;
  campaign.problem_count = problems.size();
  campaign.problem = [&](std::size_t index) { return scale_problem(problems[index], arguments.scale); };
  campaign.contenders = arguments.contenders;
  PlanOptions options;
  campaign.owner = arguments.own_memory ? TileOwner::caller : TileOwner::engine;
  options.executor = engine->executor(campaign.owner);
  campaign.make_contender = [&](const std::string& name, const Problem& problem) {
    return is_peer(name) ? make_named_peer(name, problem, MPI_COMM_WORLD) : make_contender(name, problem, options);
  };
  campaign.repetitions = arguments.repetitions;
  campaign.time_limit = arguments.time_limit;
  campaign.results = arguments.out;
  campaign.record.commit = arguments.commit;
  campaign.record.scale = arguments.scale;
  campaign.record.options = {{"transport", "auto"}};
  if (arguments.own_memory) campaign.record.options.emplace_back("memory", "caller");
  campaign.record.problems = arguments.problems.substr(arguments.problems.rfind('/') + 1);
  const CampaignSummary summary = run_campaign(campaign, *engine);
  if (engine->processes().is_speaker()) {
    fmt::print("{} problems, {} new results in {}\n", summary.problems, summary.results, arguments.out);
  }
}

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("PROBLEMS", arguments.problems, "problems, one a line as JSON; default: matrices");
  app.add_option("--contenders", arguments.contenders,
                 fmt::format("of {}; {}", std::string(contender_names), peer_names()))
      ->delimiter(',')
      ->check([](const std::string& name) {
        return is_contender(name) || is_peer(name) ? "" : name + " is not built here";
      });
  app.add_option("--scale", arguments.scale, "shrink arrays to this share of their size")->check(CLI::Range(1e-9, 1.0));
  app.add_option("--repeat", arguments.repetitions, "timed runs of each contender")->check(CLI::PositiveNumber);
  app.add_option("--time-limit", arguments.time_limit, "start no problem after so many seconds");
  app.add_flag("--own-memory", arguments.own_memory, "tiles in memory of this program, and not in the engine's");
  app.add_option("--commit", arguments.commit, "what was built, for the record");
  app.add_option("--out", arguments.out, "the file of results, added to");
}

constexpr Program<Arguments> mpi_peers{"mpi_peers", "Measures the MPI engine beside MPI_Alltoallw, ScaLAPACK and FFTW.",
                                       declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::mpi_peers, argument_count, arguments);
}
