// The results file: JSON lines that are appended, so that a run that was stopped can be resumed. A line is either a run
// ({"run": …}: machine, commit, options), to which the results after it belong, or the result of one contender on one
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

// The circumstances under which results are made.
struct RunRecord {
  std::string commit = "unknown";
  std::string engine;
  std::int64_t devices = 0;
  std::int64_t processes = 1;
  int threads = 1;                                           // per process
  std::vector<std::pair<std::string, std::string>> options;  // by name
  std::uint64_t seed = 0;
  double scale = 1;
  int repetitions = 0;
  std::string problems;  // the file that they come from; empty: sampled
  SampleOptions sampling;
};

// One line each, without its end.
std::string to_json(const RunRecord& run);
std::string to_json(const Problem& problem, const std::string& engine, const Contender& contender,
                    const Measurement& measurement);

// The file at a path, locked against other runs while this object lives (where the file system has locks).
class ResultsFile {
 public:
  // Opens the file, and reads it; makes it where there is none. Throws InputError where it contains anything but
  // results or another run has it, RuntimeError where it cannot be read or written.
  explicit ResultsFile(std::string path);
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;
  ResultsFile(ResultsFile&&) = delete;
  ResultsFile& operator=(ResultsFile&&) = delete;
  ~ResultsFile();

  // Whether the file has the contender's result on the problem from a run that differs at most in date, version and
  // commit. Throws InputError where such a run has results of another problem with this problem's id.
  bool has(const RunRecord& run, const Problem& problem, const std::string& contender) const;
  std::size_t result_count() const { return result_count_; }
  // The bytes of an incomplete last line, whose writer was killed. append() removes them.
  std::size_t torn_bytes() const { return torn_bytes_; }

  // Appends all lines, with that of their run before them unless it was the last one written here; or none, and throws
  // RuntimeError. Removes an incomplete last line of an earlier run first, and its own lines if they do not fit. SIGINT
  // and SIGTERM are delayed until the end.
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
  std::size_t whole_ = 0;  // bytes of complete lines, from the beginning
  std::size_t torn_bytes_ = 0;
  bool is_ended_ = true;                                      // whether the last complete line has its end
  std::string settings_;                                      // of the last run
  bool is_recorded_ = false;                                  // whether this object wrote the last run
  std::map<std::pair<std::string, std::string>, Done> done_;  // by settings and id
  std::size_t result_count_ = 0;
};

}  // namespace retile::evaluation
