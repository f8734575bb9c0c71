#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

// A loaded machine may make no sense, which is a failure that leaves everything as it was.
bool is_refused(const ProcessResult& result) {
  return result.status == 3 && result.errors.find("makes no sense") != std::string::npos;
}

TEST(Calibrate, writes_a_machine) {
  const ProcessResult result = run_retile({"calibrate", "--devices", "3", "--seconds", "0.2", "--threads", "2"});
  if (is_refused(result)) GTEST_SKIP() << result.errors;
  ASSERT_EQ(result.status, 0) << result.errors;
  const Json machine = Json::parse(result.output);
  EXPECT_EQ(machine["hosts"], Json({{0, 1, 2}}));
  EXPECT_GT(machine["inside"]["rate"], 0);
  EXPECT_EQ(machine["copy"].size(), 7U);
  EXPECT_EQ(machine["spread"].size(), 7U);
  EXPECT_EQ(std::string(machine["source"]).substr(0, 29), "measured by retile calibrate ");
}

TEST(Calibrate, writes_a_file_when_all_is_measured) {
  const TemporaryFolder folder;
  folder.write("machine.json", "old\n");
  const ProcessResult stopped =
      run_process({"/bin/sh", "-c",
                   "cd \"$1\" && { \"$0\" calibrate --seconds 60 --out machine.json & sleep 1; kill $!; wait $!; }",
                   RETILE_COMMAND, folder.path()});
  EXPECT_NE(stopped.status, 0);
  EXPECT_EQ(run_process({"/bin/cat", folder.path() + "/machine.json"}).output, "old\n") << stopped.errors;
  const ProcessResult result =
      folder.run_retile({"calibrate", "--devices", "2", "--seconds", "0.1", "--out", "machine.json"});
  if (is_refused(result)) GTEST_SKIP() << result.errors;
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.output, "");
  const ProcessResult failed = folder.run_retile({"calibrate", "--seconds", "0.1", "--out", "nowhere/machine.json"});
  EXPECT_EQ(failed.status, 3);
}

TEST(Calibrate, says_how_it_is_used) {
  EXPECT_EQ(run_retile({"calibrate", "--devices", "1"}),
            usage_fault("retile: --devices: '1' is no whole number from 2 to 4096\n"
                        "Try 'retile calibrate --help'.\n"));
  EXPECT_EQ(run_retile({"calibrate", "--seconds", "0"}),
            usage_fault("retile: --seconds: '0' is no number from 0.1 to 3600\n"
                        "Try 'retile calibrate --help'.\n"));
}

}  // namespace
}  // namespace retile::test
