#include "evaluation/campaign.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
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
    if (file_) summary.torn_bytes = file_->torn_bytes();
    for (; summary.problems < campaign_.problem_count && !is_time_up(); ++summary.problems) {
      if (const auto problem = find_problem(summary.problems)) measure_problem(*problem);
      for (const Refusal& refusal : std::exchange(refusals_, {})) {
        if (campaign_.after_refusal) campaign_.after_refusal(summary.problems, refusal);
      }
      if (campaign_.after_problem) campaign_.after_problem();
    }
    if (file_) summary.results = file_->result_count() - before;
    return summary;
  }

 private:
  // Whether the time is up; one process decides for all.
  bool is_time_up() {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const bool up = campaign_.time_limit > 0 && elapsed.count() > campaign_.time_limit;
    return engine_.processes().share(up);
  }

  // The problem; nothing where it cannot be made, which counts as a refusal of all contenders.
  std::optional<Problem> find_problem(std::size_t index) {
    try {
      return campaign_.problem(index);
    } catch (const InputError& error) {
      refusals_.push_back({campaign_.contenders, error.diagnostic()});
      return std::nullopt;
    }
  }

  // A letter for each contender: '+' where there is no result yet, else '-'.
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
      } catch (const InputError& error) {
        lines.push_back(skipped_line(problem, name, error.diagnostic().message));
        add_refusal(name, error.diagnostic());
      } catch (const RuntimeError& error) {
        lines.push_back(skipped_line(problem, name, error.what()));
      }
    }
    if (!contenders.empty()) {
      const MeasureOptions options{campaign_.repetitions, campaign_.record.seed, campaign_.owner};
      const std::vector<Measurement> measurements = measure(problem, contenders, engine_, options);
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        lines.push_back(to_json(problem, engine_.name(), contenders[i], measurements[i]));
      }
    }
    if (file_ && !lines.empty()) file_->append(run, lines);
  }

  std::string skipped_line(const Problem& problem, const std::string& contender, const std::string& reason) const {
    const Placement nothing({}, std::vector<std::vector<Part>>{});
    return to_json(problem, engine_.name(), {contender, std::nullopt, nothing, {}}, {{}, {}, reason});
  }

  void add_refusal(const std::string& contender, const Diagnostic& fault) {
    const auto same = std::find_if(refusals_.begin(), refusals_.end(),
                                   [&](const Refusal& refusal) { return refusal.fault.message == fault.message; });
    if (same == refusals_.end()) {
      refusals_.push_back({{contender}, fault});
    } else {
      same->contenders.push_back(contender);
    }
  }

  RunRecord record(const Problem& problem) const {
    RunRecord record = campaign_.record;
    record.engine = engine_.name();
    record.devices = problem.device_count();
    record.processes = engine_.processes().size();
    record.repetitions = campaign_.repetitions;
    return record;
  }

  const Campaign& campaign_;
  Engine& engine_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<ResultsFile> file_;  // only the speaker has one
  std::vector<Refusal> refusals_;      // of the last problem
};

}  // namespace

CampaignSummary run_campaign(const Campaign& campaign, Engine& engine) { return CampaignRun(campaign, engine).run(); }

}  // namespace retile::evaluation
