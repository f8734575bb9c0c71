#include "evaluation/results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/costs/cost_model.h"
#include "retile/types/text.h"
#include "retile/version.h"

namespace retile::evaluation {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The rest of the first line that starts with the name, in a file of /proc; empty where there is none.
std::string system_entry(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return {};
}

Json machine_json() {
  utsname system{};
  const bool known = uname(&system) == 0;
  Json json;
  json["cpu"] = system_entry("/proc/cpuinfo", "model name");
  json["cores"] = std::thread::hardware_concurrency();
  json["memory_bytes"] = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  json["system"] = known ? fmt::format("{} {}", system.sysname, system.release) : "unknown";
  return json;
}

std::string date_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json cost_json(const Plan& plan) {
  return {{"paper", price(paper_model(), plan.movement).total},
          {"volume", price(volume_model(), plan.movement).total},
          {"lower_bound", plan.cost.lower_bound},
          {"floor", plan.cost.floor},
          {"optimal", plan.cost.optimal}};
}

double seconds_of(std::int64_t picoseconds) { return 1e-12 * static_cast<double>(picoseconds); }

void add_plan(const std::optional<Plan>& plan, Json& json) {
  json["steps"] = Json::array();
  json["cost"] = nullptr;
  json["memory"] = nullptr;
  json["planning_ns"] = nullptr;
  if (!plan) return;
  for (const Step& step : plan->steps()) json["steps"].push_back(to_string(step));
  json["cost"] = cost_json(*plan);
  json["memory"] = {{"source", plan->memory.source},
                    {"target", plan->memory.target},
                    {"bound", plan->memory.bound},
                    {"peak", plan->memory.peak}};
  json["planning_ns"] = plan->planning_ns;
  if (plan->time) {
    json["predicted"] = seconds_of(plan->time->total);
    json["least_predicted"] = seconds_of(plan->time->lower_bound.picoseconds);
  }
}

Json run_json(const RunRecord& run) {
  Json json;
  json["version"] = RETILE_VERSION;
  json["commit"] = run.commit;
  json["date"] = date_now();
  static const Json machine = machine_json();
  json["machine"] = machine;
  json["engine"] = run.engine;
  json["devices"] = run.devices;
  json["ranks"] = run.processes;
  json["threads"] = run.threads;
  json["seed"] = run.seed;
  json["scale"] = run.scale;
  json["repetitions"] = run.repetitions;
  if (run.problems.empty()) {
    json["options"] = {{"axes", run.sampling.axes},
                       {"rank", {run.sampling.least_rank, run.sampling.most_rank}},
                       {"bytes", {run.sampling.least_bytes, run.sampling.most_bytes}},
                       {"dtype", name_of(run.sampling.element_type)}};
  } else {
    json["options"] = {{"problems", run.problems}};
  }
  for (const auto& [name, value] : run.options) json["options"][name] = value;
  return json;
}

// The settings that results depend on: all of the run except date, version and commit. bench/evaluation/results_file.py
// tells series apart in the same way.
std::string settings_of(nlohmann::json run) {
  for (const char* key : {"date", "version", "commit"}) run.erase(key);
  return run.dump();
}

// Whether text without an end may be the beginning of a line of ours. The first line of a file is a run.
bool is_cut_off(std::string_view text, bool is_first) {
  constexpr std::string_view run = R"({"format":1,"run":{"version":)";
  constexpr std::string_view result = R"({"format":1,"id":)";
  const bool is_ours =
      is_first ? text.starts_with(run)
               : run.starts_with(text.substr(0, run.size())) || result.starts_with(text.substr(0, result.size()));
  return is_ours && !nlohmann::json::accept(text);
}

// Delays SIGINT and SIGTERM to this thread while it lives.
class HeldBackSignals {
 public:
  HeldBackSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  HeldBackSignals(const HeldBackSignals&) = delete;
  HeldBackSignals& operator=(const HeldBackSignals&) = delete;
  HeldBackSignals(HeldBackSignals&&) = delete;
  HeldBackSignals& operator=(HeldBackSignals&&) = delete;
  ~HeldBackSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

[[noreturn]] void fail(const std::string& path, int error) {
  throw RuntimeError(fmt::format("{}: {}", path, std::strerror(error)));
}

}  // namespace

std::string to_json(const RunRecord& run) { return line_of({{"format", json_format}, {"run", run_json(run)}}); }

std::string to_json(const Problem& problem, const std::string& engine, const Contender& contender,
                    const Measurement& measurement) {
  Json json = Json::parse(to_json(problem));
  json["engine"] = engine;
  json["contender"] = contender.name;
  add_plan(contender.plan, json);
  if (measurement.skipped) {
    json["skipped"] = *measurement.skipped;
    return line_of(json);
  }
  json["verified"] = true;
  json["seconds"] = measurement.seconds;
  json["received_bytes_max"] = measurement.statistics.received_max;
  json["peak_bytes"] = {{"predicted", measurement.statistics.peak_predicted},
                        {"measured", measurement.statistics.peak_measured}};
  return line_of(json);
}

// Opens without waiting for the other end of a pipe.
ResultsFile::ResultsFile(std::string path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)) {
  if (descriptor_ < 0) fail(path_, errno);
  try {
    lock();
    read_all();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

ResultsFile::~ResultsFile() { close(descriptor_); }

// Locks the file. The lock belongs to the descriptor: closing it, or the end of the process, releases it.
void ResultsFile::lock() {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  throw InputError(fmt::format("another run is writing to '{}'", path_),
                   "wait until it has ended, or name another file");
}

void ResultsFile::read_all() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(path_, errno);
  if (!S_ISREG(status.st_mode)) {
    throw InputError(fmt::format("'{}' is no regular file", path_), "results are read again when a run goes on");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::ifstream(path_, std::ios::binary).read(text.data(), status.st_size);
  // After a crash of the machine, a file may be longer than what was written, with zeros at the end.
  if (const std::size_t last = text.find_last_not_of('\0'); last != std::string::npos) text.resize(last + 1);
  try {
    for (int number = 1; whole_ < text.size(); ++number) {
      const std::size_t end = text.find('\n', whole_);
      is_ended_ = end != std::string::npos;
      const std::string line = text.substr(whole_, end - whole_);
      if (!is_ended_ && is_cut_off(line, whole_ == 0)) break;
      learn(line, number);
      whole_ = is_ended_ ? end + 1 : text.size();
    }
  } catch (const InputError& error) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.hint = "a file that holds anything but results is left as it is; name another";
    throw InputError(std::move(diagnostic));
  }
  is_ended_ = whole_ == 0 || text[whole_ - 1] == '\n';
  torn_bytes_ = static_cast<std::size_t>(status.st_size) - whole_;
}

void ResultsFile::learn(const std::string& line, int number) {
  if (line.empty()) return;
  const SourceText source{path_, line, number};
  const JsonValue root = parse_json(source);
  const JsonReader reader(source, root, "the result");
  if (reader.has("run")) {
    reader.member("run").member("engine").string();
    settings_ = settings_of(nlohmann::json::parse(line)["run"]);
    return;
  }
  if (settings_.empty()) reader.fail("a result before the first run");
  const Problem problem = parse_problem(source);
  Done& done = done_[{settings_, problem.id()}];
  done.problem = to_json(problem);
  if (done.contenders.insert(reader.member("contender").string()).second) ++result_count_;
}

bool ResultsFile::has(const RunRecord& run, const Problem& problem, const std::string& contender) const {
  const auto found = done_.find({settings_of(run_json(run)), problem.id()});
  if (found == done_.end()) return false;
  if (found->second.problem != to_json(problem)) {
    throw InputError(fmt::format("{} has results of another problem called \"{}\"", path_, problem.id()),
                     "name another file for the results, or call the problem differently");
  }
  return found->second.contenders.contains(contender);
}

void ResultsFile::append(const RunRecord& run, const std::vector<std::string>& results) {
  std::vector<std::string> lines = results;
  if (!is_recorded_ || settings_ != settings_of(run_json(run))) lines.insert(lines.begin(), to_json(run));
  std::string text = is_ended_ ? "" : "\n";
  for (const std::string& line : lines) text += line + "\n";
  write(text);
  is_recorded_ = is_ended_ = true;
  for (const std::string& line : lines) learn(line, 1);
}

void ResultsFile::write(const std::string& text) {
  const HeldBackSignals held_back;
  int error = ftruncate(descriptor_, static_cast<off_t>(whole_)) == 0 ? 0 : errno;
  for (std::size_t done = 0; error == 0 && done < text.size();) {
    const ssize_t count =
        pwrite(descriptor_, text.data() + done, text.size() - done, static_cast<off_t>(whole_ + done));
    if (count < 0 && errno != EINTR) error = errno;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  if (error == 0) {
    whole_ += text.size();
    return;
  }
  if (ftruncate(descriptor_, static_cast<off_t>(whole_)) != 0) fail(path_, errno);
  fail(path_, error);
}

}  // namespace retile::evaluation
