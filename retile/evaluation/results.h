// The results file: JSON lines, appended to, so that a run that was stopped goes on where it was. A line is either a
// run
// ({"run": …}: machine, commit, options) or the result of one contender on one problem.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "retile/evaluation/contender.h"
#include "retile/evaluation/measure.h"
#include "retile/evaluation/sampler.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

// How the results after it were made.
struct RunRecord {
  std::string commit = "unknown";
  std::string engine;
  std::int64_t devices = 0;
  std::int64_t processes = 1;
  int threads = 1;        // of each process
  std::string transport;  // of the mpi engine; empty for others
  std::uint64_t seed = 0;
  double scale = 1;
  int repetitions = 0;
  std::string problems;  // the file they come from; empty: sampled
  SampleOptions sampling;
};

// One line each, without its end.
std::string to_json(const RunRecord& run);
std::string to_json(const Problem& problem, const std::string& engine, const Contender& contender,
                    const Measurement& measurement);

// A contender that could not even make a plan.
std::string to_json(const Problem& problem, const std::string& engine, const std::string& contender,
                    const std::string& skipped);

// The file at a path. Whoever else writes to it meanwhile is not noticed.
class ResultsFile {
 public:
  // Reads what is there; a last line that was cut off when a run was stopped is taken away. Throws InputError where the
  // file holds anything else, RuntimeError where it cannot be read or written.
  explicit ResultsFile(std::string path);

  bool has(const std::string& id, const std::string& engine, const std::string& contender) const {
    return known_.contains({id, engine, contender});
  }
  std::size_t result_count() const { return known_.size(); }

  // All lines or, where the disk is full, an error: RuntimeError.
  void append(const std::vector<std::string>& lines);

 private:
  void learn(const std::string& line, int number);

  std::string path_;
  std::set<std::tuple<std::string, std::string, std::string>> known_;  // id, engine, contender
};

}  // namespace retile::evaluation
