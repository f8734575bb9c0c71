// Calibration: measures the machine that an engine runs on, with the engine's own runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/machine/machine.h"

namespace retile::evaluation {

// A movement of bytes that can be run again and again.
class Track {
 public:
  Track() = default;
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;
  virtual ~Track() = default;

  // The seconds of a run, from the first start to the last end.
  virtual double run() = 0;
  // The seconds of a run on each host, from when all are ready to the end of its slowest process.
  virtual std::vector<double> run_on_hosts() = 0;
};

// A place where movements are run and timed.
class Laboratory {
 public:
  Laboratory() = default;
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;
  virtual ~Laboratory() = default;

  virtual std::string name() const = 0;
  virtual std::vector<std::vector<Device>> hosts() const = 0;  // the devices of each host
  // Seconds since the laboratory was made; the same for all processes.
  virtual double elapsed() = 0;
  // Prepares a movement of one array of bytes.
  virtual std::unique_ptr<Track> prepare(const Movement& movement) = 0;
};

struct CalibrationOptions {
  std::int64_t devices = 2;  // at least 2, and a number that the engine can have
  // The most that all takes together. Only what a figure needs at least goes on beyond it: a few runs.
  double seconds = 8;
};

struct Calibration {
  Machine machine;
  // The relative distance of the model from the measurements: the median over all runs, and the largest.
  double median_residual = 0;
  double largest_residual = 0;
  // The spread of repetitions of the noisiest run, from the first to the third quartile, relative to the median; and
  // the name of that run.
  double spread = 0;
  std::string noisiest;
};

// From this spread on, figures are unreliable.
constexpr double most_spread = 0.25;

// That figures are unreliable, in words; nothing where they are not.
std::optional<std::string> find_warning(const Calibration& calibration);

// Calibrates in a laboratory. `progress` is called with the share that is done, from 0 to 1. Throws RuntimeError where
// the measurements make no sense.
Calibration calibrate(Laboratory& laboratory, const CalibrationOptions& options,
                      const std::function<void(double)>& progress = {});
// Calibrates with runs of the engine; a collective call of all its processes.
Calibration calibrate(Engine& engine, const CalibrationOptions& options,
                      const std::function<void(double)>& progress = {});

}  // namespace retile::evaluation
