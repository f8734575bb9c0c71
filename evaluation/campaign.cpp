#include "evaluation/campaign.h"

#include <chrono>
#include <memory>
#include <utility>

#include "retile/base/error.h"

namespace retile::evaluation {
namespace {

class CampaignRun {
 public:
  CampaignRun(const Campaign& campaign, Engine& engine) : campaign_(campaign), engine_(engine) {
    engine.processes().do_together([&] {
      if (engine.processes().is_speaker()) file_ = std::make_unique<ResultsFile>(campaign.results);
    });
  }

  CampaignSummary run() {
    const std::size_t before = file_ ? file_->result_count() : 0;
    CampaignSummary summary;
    for (; summary.problems < campaign_.problem_count && !is_time_up(); ++summary.problems) {
      measure_problem(campaign_.problem(summary.problems));
      if (campaign_.after_problem) campaign_.after_problem();
    }
    if (file_) summary.results = file_->result_count() - before;
    return summary;
  }

 private:
  // What one process decides, all do.
  bool is_time_up() {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const bool up = campaign_.time_limit > 0 && elapsed.count() > campaign_.time_limit;
    return engine_.processes().share(up);
  }

  // A letter for each contender: + where there is no result yet.
  std::string missing(const Problem& problem, const RunRecord& run) const {
    std::string letters;
    for (const std::string& name : campaign_.contenders) {
      letters += file_ && file_->has(run, problem, name) ? '-' : '+';
    }
    return letters;
  }

  void measure_problem(const Problem& problem) {
    const RunRecord run = record(problem);
    const std::string wanted = engine_.processes().share(missing(problem, run));
    std::vector<std::string> lines;
    std::vector<Contender> contenders;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != '+') continue;
      const std::string& name = campaign_.contenders[i];
      try {
        contenders.push_back(campaign_.make_contender(name, problem));
      } catch (const RuntimeError& error) {
        const Contender unable{name, std::nullopt, Placement(problem.source()), {}};
        lines.push_back(to_json(problem, engine_.name(), unable, {{}, {}, error.what()}));
      }
    }
    if (!contenders.empty()) {
      const MeasureOptions options{campaign_.repetitions, campaign_.record.seed};
      const std::vector<Measurement> measurements = measure(problem, contenders, engine_, options);
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        lines.push_back(to_json(problem, engine_.name(), contenders[i], measurements[i]));
      }
    }
    if (file_ && !lines.empty()) file_->append(run, lines);
  }

  RunRecord record(const Problem& problem) const {
    RunRecord record = campaign_.record;
    record.engine = engine_.name();
    record.devices = problem.mesh().device_count();
    record.processes = engine_.processes().size();
    record.repetitions = campaign_.repetitions;
    return record;
  }

  const Campaign& campaign_;
  Engine& engine_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<ResultsFile> file_;  // of the speaker
};

}  // namespace

CampaignSummary run_campaign(const Campaign& campaign, Engine& engine) { return CampaignRun(campaign, engine).run(); }

}  // namespace retile::evaluation
