#include "evaluation/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "retile/base/error.h"
#include "retile/types/text.h"

namespace retile::evaluation {
namespace {

class Results : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }

  static Problem problem(const std::string& id = "p1") {
    const Mesh mesh = parse_mesh("x=2,y=2");
    return {id, parse_type("[4{x}8, 8]", mesh), parse_type("[8, 2{y,x}8]", mesh)};
  }

  static std::string line(const std::string& id, const std::string& name) {
    Measurement measurement;
    measurement.seconds = {0.5, 0.25};
    measurement.statistics.received_max = 64;
    measurement.statistics.peak_predicted = 300;
    measurement.statistics.peak_measured = 256;
    return to_json(problem(id), "threads", make_contender(name, problem(id)), measurement);
  }

  const std::string path_ = testing::TempDir() + "retile_results_" + std::to_string(getpid()) + ".jsonl";
};

TEST_F(Results, line_holds_problem_plan_and_times) {
  const auto json = nlohmann::ordered_json::parse(line("p1", "paper"));
  EXPECT_EQ(json.value("id", ""), "p1");
  EXPECT_EQ(json["mesh"].dump(), R"({"x":2,"y":2})");
  EXPECT_EQ(json["shape"].dump(), "[8,8]");
  EXPECT_EQ(json["src"].dump(), R"([["x"],[]])");
  EXPECT_EQ(json["dst"].dump(), R"([[],["y","x"]])");
  EXPECT_EQ(json["dtype"], "f32");
  EXPECT_EQ(json["engine"], "threads");
  EXPECT_EQ(json["contender"], "paper");
  EXPECT_EQ(json["steps"].dump(), R"_(["dynslice(0; 2)","alltoall(0 -> 1; 4)"])_");
  EXPECT_EQ(json["cost"]["paper"], 16);
  EXPECT_EQ(json["cost"]["volume"], 12);
  EXPECT_EQ(json["cost"]["floor"], 8);
  EXPECT_EQ(json["cost"]["optimal"], true);
  EXPECT_EQ(json["memory"].dump(), R"({"source":32,"target":16,"bound":32,"peak":32})");
  EXPECT_EQ(json["seconds"].dump(), "[0.5,0.25]");
  EXPECT_EQ(json["received_bytes_max"], 64);
  EXPECT_EQ(json["peak_bytes"].dump(), R"({"predicted":300,"measured":256})");
  EXPECT_FALSE(json.contains("skipped"));
}

TEST_F(Results, line_of_the_floor_has_no_plan) {
  const auto json = nlohmann::ordered_json::parse(line("p1", "memcpy"));
  EXPECT_EQ(json["steps"].dump(), "[]");
  EXPECT_TRUE(json["cost"].is_null());
  EXPECT_TRUE(json["memory"].is_null());
}

TEST_F(Results, skipped_line_says_why) {
  Measurement measurement;
  measurement.skipped = "no memory";
  const auto json = nlohmann::ordered_json::parse(
      to_json(problem(), "threads", make_contender("gather-slice", problem()), measurement));
  EXPECT_EQ(json["skipped"], "no memory");
  EXPECT_FALSE(json.contains("seconds"));
}

TEST_F(Results, run_says_how_results_were_made) {
  RunRecord record;
  record.commit = "abc";
  record.engine = "mpi";
  record.devices = 8;
  record.processes = 4;
  record.seed = 7;
  record.scale = 0.5;
  record.repetitions = 3;
  EXPECT_EQ(nlohmann::ordered_json::parse(to_json(record))["format"], 1);
  const auto json = nlohmann::ordered_json::parse(to_json(record))["run"];
  EXPECT_EQ(json["commit"], "abc");
  EXPECT_EQ(json["engine"], "mpi");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["options"].dump(), R"({"axes":[2,2,2],"rank":[1,6],"bytes":[64000000,800000000],"dtype":"f32"})");
  EXPECT_GT(json["machine"]["memory_bytes"], 0);
  record.problems = "problems.jsonl";
  EXPECT_EQ(nlohmann::ordered_json::parse(to_json(record))["run"]["options"].dump(),
            R"({"problems":"problems.jsonl"})");
}

TEST_F(Results, file_remembers_what_it_holds) {
  const RunRecord run;
  RunRecord other;
  other.seed = 1;
  {
    ResultsFile file(path_);
    EXPECT_EQ(file.result_count(), 0U);
    file.append(run, {line("p1", "paper"), line("p1", "wide")});
    EXPECT_TRUE(file.has(run, problem("p1"), "paper"));
    EXPECT_FALSE(file.has(other, problem("p1"), "paper"));
    EXPECT_FALSE(file.has(run, problem("p2"), "paper"));
  }
  {
    ResultsFile file(path_);
    EXPECT_EQ(file.result_count(), 2U);
    EXPECT_TRUE(file.has(run, problem("p1"), "wide"));
    file.append(run, {line("p2", "paper")});
    file.append(other, {line("p2", "paper")});
  }
  EXPECT_EQ(ResultsFile(path_).result_count(), 4U);
}

TEST_F(Results, occasion_does_not_tell_runs_apart) {
  RunRecord run;
  run.commit = "before";
  ResultsFile(path_).append(run, {line("p1", "paper")});
  run.commit = "after";
  EXPECT_TRUE(ResultsFile(path_).has(run, problem("p1"), "paper"));
}

TEST_F(Results, another_problem_of_a_known_name_is_refused) {
  ResultsFile file(path_);
  file.append({}, {line("p1", "paper")});
  const Mesh mesh = parse_mesh("x=2,y=2");
  const Problem other("p1", parse_type("[4{y}8, 8]", mesh), problem().target());
  EXPECT_THROW(file.has({}, other, "paper"), InputError);
  EXPECT_THROW(file.has({}, other, "wide"), InputError);
}

TEST_F(Results, a_line_that_was_cut_off_is_taken_away_when_another_comes) {
  const std::string first = to_json(RunRecord()) + "\n" + line("p1", "paper") + "\n";
  const std::string second = line("p2", "paper");
  for (const std::size_t kept : {std::size_t{1}, std::size_t{5}, second.size() / 2, second.size() - 1}) {
    const std::string held = first + second.substr(0, kept);
    write(held);
    ResultsFile file(path_);
    EXPECT_EQ(file.result_count(), 1U);
    EXPECT_EQ(text(), held);
    file.append({}, {second});
    EXPECT_EQ(text().substr(0, first.size()), first) << kept;
    EXPECT_THAT(text(), testing::EndsWith("}\n" + second + "\n")) << kept;
  }
}

TEST_F(Results, a_whole_line_without_its_end_is_kept) {
  const std::string held = to_json(RunRecord()) + "\n" + line("p1", "paper");
  write(held);
  ResultsFile file(path_);
  EXPECT_EQ(file.result_count(), 1U);
  file.append({}, {line("p2", "paper")});
  EXPECT_EQ(text().substr(0, held.size() + 1), held + "\n");
}

TEST_F(Results, anything_else_is_left_alone) {
  const std::string run = to_json(RunRecord()) + "\n";
  for (const std::string& held :
       {std::string("a letter to a friend\nthat must not be lost"), run + "a note", std::string("{"),
        std::string("{\"format\":1,\"id\":\"cut"), line("p1", "paper") + "\n"}) {
    write(held);
    EXPECT_THROW(ResultsFile{path_}, InputError) << held;
    EXPECT_EQ(text(), held);
  }
  EXPECT_THROW(ResultsFile{testing::TempDir() + "no/such/folder/results.jsonl"}, RuntimeError);
}

// After a crash of the machine, zeros may stand where the last lines were.
TEST_F(Results, zeros_at_the_end_are_taken_away_and_a_file_of_zeros_is_not_ours) {
  const std::string first = to_json(RunRecord()) + "\n" + line("p1", "paper") + "\n";
  const std::string second = line("p2", "paper");
  for (const std::string& rest : {std::string(4096, '\0'), second.substr(0, 20) + std::string(9, '\0')}) {
    write(first + rest);
    ResultsFile file(path_);
    EXPECT_EQ(file.result_count(), 1U);
    EXPECT_EQ(file.torn_bytes(), rest.size());
    file.append({}, {second});
    EXPECT_THAT(text(), testing::EndsWith("}\n" + second + "\n"));
    EXPECT_EQ(text().find('\0'), std::string::npos);
  }
  write(std::string(100, '\0'));
  EXPECT_THROW(ResultsFile{path_}, InputError);
}

TEST_F(Results, belong_to_one_run_at_a_time) {
  {
    const ResultsFile file(path_);
    EXPECT_THROW(ResultsFile{path_}, InputError);
  }
  EXPECT_NO_THROW(ResultsFile{path_});
}

}  // namespace
}  // namespace retile::evaluation
