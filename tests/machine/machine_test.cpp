#include "retile/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "retile/base/input_errors.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

using ::testing::ElementsAre;

// The machine of docs/formats.md.
constexpr const char* four_hosts = R"({"format": 1, "name": "four hosts", "hosts": [[0, 1], [2, 3], [4, 5], [6, 7]],
 "link": {"out": 5e7, "in": [5e7, 5e7, 2.5e7, 5e7], "latency": 4e-5},
 "inside": {"rate": 8e9, "latency": 2e-6},
 "copy": [[16, 2e9], [256, 6e9], [4096, 1.1e10]],
 "step": 1e-5, "source": "measured"})";

Machine parse(const std::string& text) { return parse_machine({"m.json", text}); }

std::string faults_of(const std::string& text) {
  try {
    parse(text);
  } catch (const InputErrors& errors) {
    std::string all;
    for (const Diagnostic& diagnostic : errors.diagnostics()) all += to_string(diagnostic);
    return all;
  } catch (const InputError& error) {
    return to_string(error.diagnostic());
  }
  return "no error";
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Machine, is_what_its_file_says) {
  const Machine machine = parse(four_hosts);
  EXPECT_EQ(machine.name, "four hosts");
  EXPECT_EQ(machine.device_count(), 8);
  EXPECT_THAT(machine.host_numbers(), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(machine.links,
              ElementsAre(LinkRates{5e7, 5e7}, LinkRates{5e7, 5e7}, LinkRates{5e7, 2.5e7}, LinkRates{5e7, 5e7}));
  EXPECT_EQ(machine.link_latency, 4e-5);
  EXPECT_EQ(machine.inside_rate, 8e9);
  EXPECT_EQ(machine.inside_latency, 2e-6);
  EXPECT_EQ(machine.step, 1e-5);
  EXPECT_EQ(machine.source, "measured");
}

TEST(Machine, is_written_as_it_is_read) {
  const std::string text = to_json(parse(four_hosts));
  EXPECT_EQ(text, R"({"format": 1, "name": "four hosts", "hosts": [[0, 1], [2, 3], [4, 5], [6, 7]], )"
                  R"("link": {"out": 50000000, "in": [50000000, 50000000, 25000000, 50000000], "latency": 4e-05}, )"
                  R"("inside": {"rate": 8000000000, "latency": 2e-06}, )"
                  R"("copy": [[16, 2000000000], [256, 6000000000], [4096, 11000000000]], )"
                  R"("step": 1e-05, "source": "measured"})");
  EXPECT_EQ(to_json(parse(text)), text);
}

// The figures of compiled programs of docs/formats.md.
constexpr const char* with_programs = R"({"hosts": [[0, 1]], "inside": {"rate": 8e9},
 "programs": {"start": 1e-4, "permute": {"latency": [[2, 5e-5]], "rate": [[65536, 1e9], [1048576, 4e9]]},
  "gather": {"latency": [[2, 2e-5], [8, 8e-5]], "rate": [[1, 3e9]]},
  "all_to_all": {"latency": [[2, 0]], "rate": [[1, 2e9]]}}})";

TEST(Machine, may_say_how_long_programs_take) {
  EXPECT_FALSE(parse(four_hosts).programs);
  const Machine machine = parse(with_programs);
  ASSERT_TRUE(machine.programs);
  EXPECT_EQ(machine.programs->start, 1e-4);
  EXPECT_EQ(machine.programs->gather.latency_in(2), 2e-5);
  EXPECT_EQ(machine.programs->gather.latency_in(8), 8e-5);
  EXPECT_EQ(machine.programs->gather.latency_in(16), 8e-5);
  EXPECT_NEAR(machine.programs->gather.latency_in(4), 4e-5, 1e-12);  // a third of the way
  EXPECT_EQ(machine.programs->permute.rate_of(1), 1e9);
  EXPECT_NEAR(machine.programs->permute.rate_of(1 << 18), 2e9, 1);  // half way on both logarithmic scales
  EXPECT_EQ(machine.programs->permute.rate_of(1 << 30), 4e9);
  EXPECT_EQ(machine.programs->all_to_all.latency_in(2), 0);
  const std::string text = to_json(machine);
  EXPECT_NE(
      text.find(R"("programs": {"start": 0.0001, "permute": {"latency": [[2, 5e-05]], "rate": [[65536, 1000000000], )"
                R"([1048576, 4000000000]]}, "gather": )"),
      std::string::npos);
  EXPECT_EQ(to_json(parse(text)), text);
  EXPECT_EQ(parse(text).programs, machine.programs);
}

TEST(MachineFault, is_shown_in_figures_of_programs) {
  EXPECT_EQ(faults_of(R"({"hosts": [[0, 1]], "inside": {"rate": 1},
 "programs": {"begin": 1, "permute": {"latency": [[2]], "rat": []}}})"),
            R"(m.json:2:15: error: unknown key "begin"
    2 |  "programs": {"begin": 1, "permute": {"latency": [[2]], "rat": []}}}
      |               ^~~~~~~
hint: there are start, permute, gather, all_to_all
m.json:2:57: error: unknown key "rat"
    2 |  "programs": {"begin": 1, "permute": {"latency": [[2]], "rat": []}}}
      |                                                         ^~~~~
hint: did you mean "rate"?
m.json:2:51: error: "latency"[0] must be two numbers
    2 |  "programs": {"begin": 1, "permute": {"latency": [[2]], "rat": []}}}
      |                                                   ^~~
hint: write [devices of a group, seconds]
)");
  const auto faults_of_permute = [](const std::string& permute) {
    return faults_of("{\"hosts\": [[0, 1]], \"inside\": {\"rate\": 1}, \"programs\": {\"permute\":\n" + permute + "}}");
  };
  EXPECT_EQ(faults_of_permute(R"({"latency": [], "rate": [[1, 2]]})"), R"(m.json:2:13: error: "latency" has no entries
    2 | {"latency": [], "rate": [[1, 2]]}}}
      |             ^~
hint: write [devices of a group, seconds]
)");
  EXPECT_EQ(faults_of_permute(R"({"latency": [[2, -1]], "rate": [[1, 2]]})"),
            R"(m.json:2:18: error: "latency"[0][1] is negative
    2 | {"latency": [[2, -1]], "rate": [[1, 2]]}}}
      |                  ^~
hint: times are in seconds
)");
  EXPECT_EQ(faults_of_permute(R"({"latency": [[2, 0]], "rate": [[8, 2], [8, 3]]})"),
            R"(m.json:2:41: error: entries must ascend, and 8 follows 8
    2 | {"latency": [[2, 0]], "rate": [[8, 2], [8, 3]]}}}
      |                                         ^
)");
}

TEST(Machine, may_be_one_host_that_says_little) {
  const Machine machine = parse(R"({"hosts": [[1, 0]], "inside": {"rate": 1}})");
  EXPECT_EQ(machine.device_count(), 2);
  EXPECT_TRUE(machine.links.empty());
  EXPECT_EQ(machine.copy_rate(1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(to_json(machine), R"({"format": 1, "hosts": [[1, 0]], "inside": {"rate": 1, "latency": 0}, "step": 0})");
}

TEST(Machine, copies_runs_between_two_lengths_at_a_rate_between_theirs) {
  const Machine machine = parse(four_hosts);
  EXPECT_EQ(machine.copy_rate(1), 2e9);
  EXPECT_EQ(machine.copy_rate(16), 2e9);
  EXPECT_EQ(machine.copy_rate(256), 6e9);
  EXPECT_EQ(machine.copy_rate(1 << 20), 1.1e10);
  EXPECT_NEAR(machine.copy_rate(64), std::sqrt(2e9 * 6e9), 1);  // half way on both logarithmic scales
}

TEST(Machine, spreads_runs_at_rates_of_their_own_where_it_has_any) {
  const std::string copies = R"({"hosts": [[0, 1]], "inside": {"rate": 1}, "copy": [[16, 2e9]])";
  EXPECT_EQ(parse(copies + "}").spread_rate(16), 2e9);
  EXPECT_EQ(parse(copies + "}").alone, 1);
  const Machine machine = parse(copies + R"(, "spread": [[16, 1e9], [64, 2e9]], "alone": 3.5})");
  EXPECT_EQ(machine.spread_rate(1), 1e9);
  EXPECT_EQ(machine.copy_rate(1), 2e9);
  EXPECT_EQ(machine.alone, 3.5);
  EXPECT_EQ(to_json(parse(to_json(machine))), to_json(machine));
  EXPECT_EQ(parse(to_json(machine)).spread, machine.spread);
  EXPECT_EQ(parse(to_json(machine)).alone, 3.5);
}

TEST(MachineFault, devices_alone_are_no_slower_and_rows_that_lie_apart_are_not_all) {
  EXPECT_EQ(faults_of(R"({"hosts": [[0]], "inside": {"rate": 1}, "alone": 0.5, "spread": [[16, 1]]})"),
            R"(m.json:1:65: error: there are rates of rows that lie apart, and none of others
    1 | {"hosts": [[0]], "inside": {"rate": 1}, "alone": 0.5, "spread": [[16, 1]]}
      |                                                                 ^~~~~~~~~
hint: add copy
m.json:1:50: error: alone is below 1
    1 | {"hosts": [[0]], "inside": {"rate": 1}, "alone": 0.5, "spread": [[16, 1]]}
      |                                                  ^~~
hint: a device is no slower where others are idle
)");
}

TEST(Machine, of_each_example_is_read_and_says_where_its_figures_are_from) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RETILE_SOURCE_DIR "/examples/machines")) {
    SCOPED_TRACE(entry.path());
    const Machine machine = parse(read_file(entry.path()));
    EXPECT_FALSE(machine.name.empty());
    EXPECT_FALSE(machine.source.empty());
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(MachineFault, lists_all_that_is_wrong_at_its_place) {
  EXPECT_EQ(faults_of(R"({"hosts": [[0, 1], [2, 3]],
 "link": {"out": [5e7, 0], "in": 1, "latencie": 4e-5},
 "inside": {"rate": "fast"},
 "copy": [[16, 2e9], [16, 3e9]],
 "steps": -1e-5, "colour": "red"})"),
            R"(m.json:5:2: error: unknown key "steps"
    5 |  "steps": -1e-5, "colour": "red"}
      |  ^~~~~~~
hint: did you mean "step"?
m.json:5:18: error: unknown key "colour"
    5 |  "steps": -1e-5, "colour": "red"}
      |                  ^~~~~~~~
hint: there are format, name, hosts, link, inside, copy, spread, alone, step, programs, source
m.json:2:37: error: unknown key "latencie"
    2 |  "link": {"out": [5e7, 0], "in": 1, "latencie": 4e-5},
      |                                     ^~~~~~~~~~
hint: did you mean "latency"?
m.json:3:21: error: "rate" must be a number, not a string
    3 |  "inside": {"rate": "fast"},
      |                     ^~~~~~
m.json:2:24: error: "out"[1] must be above 0
    2 |  "link": {"out": [5e7, 0], "in": 1, "latencie": 4e-5},
      |                        ^
hint: rates are in bytes a second
m.json:4:23: error: lengths of runs must ascend, and 16 follows 16
    4 |  "copy": [[16, 2e9], [16, 3e9]],
      |                       ^~
m.json:5:11: error: "step" is negative
    5 |  "steps": -1e-5, "colour": "red"}
      |           ^~~~~
hint: times are in seconds
)");
}

TEST(MachineFault, devices_are_listed_once) {
  EXPECT_EQ(faults_of(R"({"hosts": [[0, 1], [1, 2]], "link": {"out": 1, "in": 1}, "inside": {"rate": 1}})"),
            R"(m.json:1:21: error: device 1 is listed twice
    1 | {"hosts": [[0, 1], [1, 2]], "link": {"out": 1, "in": 1}, "inside": {"rate": 1}}
      |                     ^
hint: a device is on one host
)");
  EXPECT_EQ(faults_of(R"({"hosts": [[0, 1], [3]], "link": {"out": 1, "in": 1}, "inside": {"rate": 1}})"),
            R"(m.json:1:21: error: device 3 is listed, and device 2 is on no host
    1 | {"hosts": [[0, 1], [3]], "link": {"out": 1, "in": 1}, "inside": {"rate": 1}}
      |                     ^
hint: devices count from 0 and leave no number out
)");
  EXPECT_EQ(faults_of(R"({"hosts": [[0], []], "inside": {"rate": 1}})"), R"(m.json:1:17: error: host 1 has no devices
    1 | {"hosts": [[0], []], "inside": {"rate": 1}}
      |                 ^~
)");
  EXPECT_EQ(faults_of(R"({"hosts": [], "inside": {"rate": 1}})"), R"(m.json:1:11: error: a machine has at least one host
    1 | {"hosts": [], "inside": {"rate": 1}}
      |           ^~
hint: write [[0, 1, …]], a list for each host
)");
}

TEST(MachineFault, links_have_a_rate_for_each_host) {
  EXPECT_EQ(faults_of(R"({"hosts": [[0], [1]], "inside": {"rate": 1}})"),
            R"(m.json:1:1: error: the machine has no "link"
    1 | {"hosts": [[0], [1]], "inside": {"rate": 1}}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)");
  EXPECT_EQ(faults_of(R"({"hosts": [[0], [1]], "link": {"out": 1, "in": [1]}, "inside": {"rate": 1}})"),
            R"(m.json:1:48: error: "in" has 1 rate, and there are 2 hosts
    1 | {"hosts": [[0], [1]], "link": {"out": 1, "in": [1]}, "inside": {"rate": 1}}
      |                                                ^~~
hint: write one for each host, or a single number for all
)");
}

TEST(MachineFault, copies_are_pairs) {
  EXPECT_EQ(faults_of(R"({"hosts": [[0]], "inside": {"rate": 1}, "copy": [[16]]})"),
            R"(m.json:1:50: error: "copy"[0] must be a length and a rate
    1 | {"hosts": [[0]], "inside": {"rate": 1}, "copy": [[16]]}
      |                                                  ^~~~
hint: write [bytes of a run, bytes a second]
)");
  EXPECT_EQ(faults_of(R"({"hosts": [[0]], "inside": {"rate": 1}, "copy": []})"),
            R"(m.json:1:49: error: "copy" has no rates
    1 | {"hosts": [[0]], "inside": {"rate": 1}, "copy": []}
      |                                                 ^~
hint: leave it out where copies are free
)");
}

TEST(MachineFault, is_no_machine_at_all) {
  EXPECT_EQ(faults_of("[1]"), R"(m.json:1:1: error: a machine must be an object
    1 | [1]
      | ^~~
hint: as in {"hosts": [[0, 1], [2, 3]], "link": …, "inside": …}
)");
  EXPECT_EQ(faults_of(R"({"format": 2})"), R"(m.json:1:12: error: format 2 is not known here
    1 | {"format": 2}
      |            ^
hint: this retile reads and writes format 1
)");
  EXPECT_EQ(faults_of(R"({"inside": {"rate": 1e999}})"),
            R"(m.json:1:21: error: malformed JSON: number overflow parsing '1e999'
    1 | {"inside": {"rate": 1e999}}
      |                     ^~~~~
)");
}

TEST(MachineFault, has_another_number_of_devices_than_the_problem) {
  const Machine machine = parse(four_hosts);
  EXPECT_NO_THROW(require_devices(machine, 8));
  const auto fault_of = [](const Machine& some, std::int64_t devices) {
    return test::diagnostic_of([&] {
      require_devices(some, devices);
      return 0;
    });
  };
  EXPECT_EQ(fault_of(machine, 6), R"(m.json:1:46: error: the machine has 8 devices, and the problem 6
    1 | {"format": 1, "name": "four hosts", "hosts": [[0, 1], [2, 3], [4, 5], [6, 7]],
      |                                              ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)");
  Machine made;  // by a program, not from a file
  made.hosts = {{0}};
  EXPECT_EQ(fault_of(made, 2), "error: the machine has 1 device, and the problem 2\n");
}

}  // namespace
}  // namespace retile
