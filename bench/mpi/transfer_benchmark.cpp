// Times a transfer against its arrays moved one after the other, and against what people do: gather and broadcast in
// buckets, gather and slice, MPI_Alltoallw. Under mpirun with a rank for each device; alone, on the threads engine.
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/mpi/mpi_program.h"
#include "bench/mpi/transfer_contenders.h"
#include "retile/engines/mpi/job.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/engines/threads/threads.h"
#include "retile/transfer/run.h"
#include "retile/transfer/text.h"
#include "retile/transfer/tiles.h"

namespace retile::bench {
namespace {

struct Arguments {
  std::string manifest;
  std::int64_t devices = 8;
  std::int64_t max_bytes = 16 << 20;
  std::int64_t bucket_bytes = 512 << 20;
  int repetitions = 5;
  std::string transport = "auto";
  double megabits = 0;  // of each host's link; 0: not told
  bool leaves_out_gathers = false;
};

// 1,000 arrays of 64 KB, from rows to columns.
transfer::Manifest small_arrays(std::int64_t devices) {
  const Mesh mesh({{"x", devices}});
  const Shape shape{128, 128};
  const Problem problem("", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
                        DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}}));
  std::vector<std::pair<std::string, Problem>> arrays;
  for (int i = 0; i < 1000; ++i) arrays.emplace_back(std::to_string(i), problem);
  return transfer::make_manifest(arrays);
}

transfer::Manifest manifest_of(const Arguments& arguments, std::int64_t devices) {
  if (arguments.manifest.empty()) return small_arrays(devices);
  std::ifstream file(arguments.manifest);
  if (!file) throw RuntimeError("cannot read " + arguments.manifest);
  std::vector<SourceText> lines;
  for (std::string text; std::getline(file, text);) {
    lines.push_back({arguments.manifest, text, static_cast<int>(lines.size()) + 1});
  }
  return transfer::parse_manifest(lines);
}

// Into a host or out of it.
std::int64_t busiest_link_bytes(const transfer::TransferPlan& plan, const Hosts& hosts) {
  std::map<std::int64_t, std::int64_t> in;
  std::map<std::int64_t, std::int64_t> out;
  std::int64_t most = 0;
  for (const transfer::TransferPlan::Stream& stream : plan.streams()) {
    const std::int64_t from = hosts[static_cast<std::size_t>(stream.from)];
    const std::int64_t to = hosts[static_cast<std::size_t>(stream.to)];
    if (from != to) most = std::max({most, out[from] += stream.bytes, in[to] += stream.bytes});
  }
  return most;
}

// The clock stops when the last rank is done.
double seconds_of_run(Contender& contender, const TilePointers& tiles, const mpi::Communicator& world) {
  world.barrier();
  const std::int64_t start = now();
  contender.run(tiles);
  world.barrier();
  return static_cast<double>(now() - start) * 1e-9;
}

void run(const Arguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  const bool is_alone = world.size() == 1;
  mpi::MpiOptions options;
  options.transport = mpi::find_transport(arguments.transport).value_or(mpi::Transport::automatic);
  const std::unique_ptr<Engine> engine = is_alone ? make_threads_engine() : mpi::make_mpi_engine(world.get(), options);
  transfer::Manifest manifest = manifest_of(arguments, is_alone ? arguments.devices : world.size());
  const Hosts hosts = engine->hosts(manifest.device_count());
  const transfer::TransferPlan plan(std::move(manifest), arguments.max_bytes, hosts);
  if (!is_alone && plan.device_count() != world.size()) {
    throw RuntimeError(fmt::format("there are {} devices: start as many ranks", plan.device_count()));
  }
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(make_transfer(plan, *engine));
  contenders.push_back(make_one_by_one(plan, *engine));
  const int threads = is_alone ? static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) : 1;
  contenders.push_back(make_memcpy(plan, engine->devices(plan.device_count()), threads));
  if (!is_alone) {
    contenders.push_back(make_alltoallw(plan, world.get()));
  }
  if (!is_alone && !arguments.leaves_out_gathers) {
    contenders.push_back(make_gather_slice(plan, world.get()));
    contenders.push_back(make_buckets(plan, world.get(), arguments.bucket_bytes));
  }
  transfer::MadeTiles tiles(plan, engine->devices(plan.device_count()), 1, *engine,
                            [&](std::size_t bytes, Engine::Pages) { return engine->allocate(bytes); });
  const TilePointers pointers{tiles.sources(), tiles.targets()};
  for (const auto& contender : contenders) {
    tiles.clear_targets();
    contender->run(pointers);
    if (!contender->is_right()) continue;
    const auto difference = world.first_text(tiles.difference());
    if (difference) throw RuntimeError(fmt::format("{}: {}", contender->name(), *difference));
  }
  std::vector<double> fastest(contenders.size(), 1e300);
  for (int i = 0; i < arguments.repetitions; ++i) {
    for (std::size_t j = 0; j < contenders.size(); ++j) {
      fastest[j] = std::min(fastest[j], seconds_of_run(*contenders[j], pointers, world));
    }
  }
  if (world.is_speaker()) fmt::print("{}\n", to_string(plan));
  for (std::size_t j = 0; j < contenders.size(); ++j) {
    std::int64_t most[] = {contenders[j]->received(), contenders[j]->extra()};
    world.most(most);
    if (!world.is_speaker()) continue;
    fmt::print("{:12} {:9.3f} ms {:6.2f} times   {:14} bytes received, {:14} beside the tiles\n", contenders[j]->name(),
               1e3 * fastest[j], fastest[j] / fastest[0], most[0], most[1]);
    if (arguments.megabits > 0) {
      const double seconds = static_cast<double>(busiest_link_bytes(plan, hosts)) * 8e-6 / arguments.megabits;
      fmt::print("{:12} {:9.2f} times what must cross the busiest link over its rate\n", "", fastest[j] / seconds);
    }
  }
}

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("MANIFEST", arguments.manifest, "one array a line; 1,000 arrays of 64 KB unless given");
  app.add_option("--devices", arguments.devices, "where it runs alone");
  app.add_option("--max-bytes", arguments.max_bytes, "beside the tiles");
  app.add_option("--bucket-bytes", arguments.bucket_bytes, "of gather and broadcast");
  app.add_option("--repeat", arguments.repetitions, "in turn; the fastest counts");
  app.add_option("--megabits", arguments.megabits, "of each host's link, a second: compares with what must cross it");
  app.add_flag("--without-gathers", arguments.leaves_out_gathers, "only who moves no more than it must");
  app.add_option("--transport", arguments.transport, "of our engine: auto, messages");
}

constexpr Program<Arguments> transfer_benchmark{"transfer_benchmark",
                                                "Times a transfer against other ways to move a model.", declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::transfer_benchmark, argument_count, arguments);
}
