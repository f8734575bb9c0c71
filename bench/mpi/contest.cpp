#include "bench/mpi/contest.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/comparison.h"
#include "retile/engines/backend.h"

namespace retile::bench {

void declare_contest(CLI::App& app, ContestArguments& arguments) {
  app.add_option("--repeat", arguments.repetitions, "Times that calls are measured, in turn")->capture_default_str();
  app.add_option("--calls", arguments.calls, "Calls that are measured at once")->capture_default_str();
}

ContestTimes time_in_turn(const std::vector<Contender>& contenders, const ContestArguments& arguments,
                          const mpi::Communicator& world) {
  ContestTimes times(contenders.size());
  for (int repetition = 0; repetition < arguments.repetitions; ++repetition) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      world.barrier();
      std::int64_t ends[] = {0, -now()};
      for (int call = 0; call < arguments.calls; ++call) contenders[i].call();
      ends[0] = now();
      world.most(ends);
      times[i].push_back(static_cast<double>(ends[0] + ends[1]) * 1e-3 / arguments.calls);
    }
  }
  return times;
}

std::string contest_text(const std::string& title, const std::vector<Contender>& contenders,
                         const ContestTimes& times) {
  std::string text = fmt::format("{}: {} {:.1f} us\n", title, contenders[0].name, median(times[0]));
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t j = 0; j < times[i].size(); ++j) ratios.push_back(times[i][j] / times[0][j]);
    std::sort(ratios.begin(), ratios.end());
    text += fmt::format("  {:<40} {:10.1f} us {:6.2f} ({:.2f} to {:.2f})\n", contenders[i].name, median(times[i]),
                        median(ratios), ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4]);
  }
  return text;
}

}  // namespace retile::bench
