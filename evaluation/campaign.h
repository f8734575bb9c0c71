// Campaigns: many problems, each measured with every contender, into a results file. A campaign can be stopped and
// resumed.
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
  // Throws where a contender cannot do the problem: the refusal is recorded, and the other contenders continue.
  std::function<Contender(const std::string& name, const Problem& problem)> make_contender;
  int repetitions = 5;
  TileOwner owner = TileOwner::engine;
  double time_limit = 0;                // no problem begins after so many seconds; 0: no limit
  std::string results;                  // path of the file; only the speaking process reads and writes it
  RunRecord record;                     // engine, devices, processes and repetitions are filled in
  std::function<void()> after_problem;  // reports progress
  // Called for a problem that contenders cannot do, with the reason.
  std::function<void(std::size_t index, const Refusal& refusal)> after_refusal;
};

struct CampaignSummary {
  std::size_t problems = 0;    // problems completed
  std::size_t results = 0;     // results added
  std::size_t torn_bytes = 0;  // of an unfinished line that an earlier run left in the results file
};

// Runs a campaign. A collective call if there are several processes; only the speaker's summary counts results.
CampaignSummary run_campaign(const Campaign& campaign, Engine& engine);

}  // namespace retile::evaluation
