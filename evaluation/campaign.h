// Many problems, each measured with every contender, into a results file: can be stopped, and goes on where it was.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "evaluation/contender.h"
#include "evaluation/measure.h"
#include "evaluation/results.h"
#include "retile/base/diagnostic.h"
#include "retile/engines/engine.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

struct Refusal {
  std::vector<std::string> contenders;
  Diagnostic fault;
};

struct Campaign {
  std::size_t problem_count = 0;
  std::function<Problem(std::size_t index)> problem;
  std::vector<std::string> contenders;
  // Throws where a contender cannot do the problem: that is recorded, and the others go on.
  std::function<Contender(const std::string& name, const Problem& problem)> make_contender;
  int repetitions = 5;
  double time_limit = 0;                // seconds after which no problem is begun; 0: none
  std::string results;                  // path of the file, which only the speaking process reads and writes
  RunRecord record;                     // engine, devices, processes and repetitions are filled in
  std::function<void()> after_problem;  // for progress
  // Called for a problem that contenders cannot do, with the reason.
  std::function<void(std::size_t index, const Refusal& refusal)> after_refusal;
};

struct CampaignSummary {
  std::size_t problems = 0;    // that were gone through
  std::size_t results = 0;     // that were added
  std::size_t torn_bytes = 0;  // of a line of the results file that an earlier run left unfinished
};

// With several processes a collective call; the summary counts results on the speaker alone.
CampaignSummary run_campaign(const Campaign& campaign, Engine& engine);

}  // namespace retile::evaluation
