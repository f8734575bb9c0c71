// The results file: JSON lines, appended to, so that a run that was stopped goes on where it was. A line is either a
// run
// ({"run": …}: machine, commit, options), of which the results after it are, or the result of one contender on one
// problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "evaluation/contender.h"
#include "evaluation/measure.h"
#include "evaluation/sampler.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

// How results are made.
struct RunRecord {
  std::string commit = "unknown";
  std::string engine;
  std::int64_t devices = 0;
  std::int64_t processes = 1;
  int threads = 1;                                           // of each process
  std::vector<std::pair<std::string, std::string>> options;  // by name
  std::uint64_t seed = 0;
  double scale = 1;
  int repetitions = 0;
  std::string problems;  // the name of the file they come from; empty: sampled
  SampleOptions sampling;
};

// One line each, without its end.
std::string to_json(const RunRecord& run);
std::string to_json(const Problem& problem, const std::string& engine, const Contender& contender,
                    const Measurement& measurement);

// The file at a path, locked against other runs while this object lives (where the file system has locks).
class ResultsFile {
 public:
  // Makes the file where there is none, and otherwise reads it and leaves it as it is. Throws InputError where it holds
  // anything but results or another run has it, RuntimeError where it cannot be read or written.
  explicit ResultsFile(std::string path);
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;
  ResultsFile(ResultsFile&&) = delete;
  ResultsFile& operator=(ResultsFile&&) = delete;
  ~ResultsFile();

  // Whether the contender's result on the problem is there, of a run that differs in date, version and commit alone.
  // Throws InputError where such a run has results of another problem under this problem's id.
  bool has(const RunRecord& run, const Problem& problem, const std::string& contender) const;
  std::size_t result_count() const { return result_count_; }
  // Bytes of a last line that is not whole, because the run that wrote it was killed. append() removes them.
  std::size_t torn_bytes() const { return torn_bytes_; }

  // All lines, after that of their run where it is not the last one here, or none and RuntimeError: what was cut off
  // when an earlier run was stopped is taken away before, and what does not fit after. SIGINT and SIGTERM wait for the
  // end.
  void append(const RunRecord& run, const std::vector<std::string>& results);

 private:
  struct Done {
    std::string problem;  // as JSON
    std::set<std::string> contenders;
  };

  void lock();
  void read_all();
  void learn(const std::string& line, int number);
  void write(const std::string& text);

  const std::string path_;
  int descriptor_ = -1;
  std::size_t whole_ = 0;  // bytes from the beginning that are whole lines
  std::size_t torn_bytes_ = 0;
  bool is_ended_ = true;                                      // the last of them, too
  std::string settings_;                                      // of the last run
  bool is_recorded_ = false;                                  // the last run is of this object
  std::map<std::pair<std::string, std::string>, Done> done_;  // by settings and id
  std::size_t result_count_ = 0;
};

}  // namespace retile::evaluation
