// Calibration: the machine that an engine runs on, measured with the engine's own runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/machine/machine.h"

namespace retile::evaluation {

// A movement of bytes that is run again and again.
class Track {
 public:
  Track() = default;
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;
  virtual ~Track() = default;

  // Seconds of a run, from the first start to the last end.
  virtual double run() = 0;
  // Seconds of a run on each host, from when all are ready to the end of its slowest process.
  virtual std::vector<double> run_on_hosts() = 0;
};

// Where movements are run and timed.
class Laboratory {
 public:
  Laboratory() = default;
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;
  virtual ~Laboratory() = default;

  virtual std::string name() const = 0;
  virtual std::vector<std::vector<Device>> hosts() const = 0;  // the devices of each
  // One array of bytes.
  virtual std::unique_ptr<Track> prepare(const Movement& movement) = 0;
};

struct CalibrationOptions {
  std::int64_t devices = 2;  // at least 2, which the engine can have
  double seconds = 8;        // about how long all measurements take together, at most
};

struct Calibration {
  Machine machine;
  // How far the model is from what was measured, relative to that: of half of all runs, and at most.
  double median_residual = 0;
  double largest_residual = 0;
  // How far repetitions of a run lie apart: from the first to the third quartile, relative to the median; of the
  // noisiest run, and what that run is.
  double spread = 0;
  std::string noisiest;
};

// From this spread on, figures are not to be relied on.
constexpr double most_spread = 0.25;

// Measures. `progress` is told how much is done, from 0 to 1. Throws RuntimeError where what was measured makes no
// sense.
Calibration calibrate(Laboratory& laboratory, const CalibrationOptions& options,
                      const std::function<void(double)>& progress = {});
// With runs of the engine, by all of its processes together.
Calibration calibrate(Engine& engine, const CalibrationOptions& options,
                      const std::function<void(double)>& progress = {});

}  // namespace retile::evaluation
