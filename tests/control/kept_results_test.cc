#include "control/kept_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "evaluation/tasks/task_spec.h"
#include "runs/run_directory.h"
#include "runs/run_evaluation.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace kept_results_test {

class KeptResultsTest : public ControlFixture {
 protected:
  const std::filesystem::path run_dir_ = root_ / "run";
};

// Figures of other numbers of active experts do not replace those of the run.
TEST_F(KeptResultsTest, EvaluationsByActiveExpertsAreStoredTogether) {
  v1::RunSpec spec = Spec("toy <run>");
  spec.mutable_model()->mutable_routing()->mutable_token()->set_active_experts(2);
  ASSERT_TRUE(RunDirectory(run_dir_).WriteSpec(spec).ok());
  v1::EvaluateRequest request;
  v1::EvaluationResult result;
  result.set_dataset_dir(spec.dataset_dir());
  for (const int active : {1, 2, 4}) {
    request.add_active_experts(active);
    v1::Evaluation* const evaluation = result.add_evaluations();
    evaluation->set_model(run_dir_.string());
    evaluation->set_first_segment_length(spec.model().routing().segment_length());
    evaluation->set_active_experts(active);
    evaluation->mutable_total()->set_loss(3.0 / active);
  }
  ASSERT_TRUE(KeepEvaluations(request, result).ok());
  const RunDirectory run(run_dir_);
  EXPECT_EQ((*ReadEvaluation(run))->total().loss(), 1.5);
  EXPECT_EQ(ReadActiveExperts(run)->evaluations_size(), 3);
  request.clear_active_experts();
  request.add_active_experts(4);
  result.mutable_evaluations()->DeleteSubrange(0, 2);
  ASSERT_TRUE(KeepEvaluations(request, result).ok());
  EXPECT_EQ((*ReadEvaluation(run))->total().loss(), 1.5);
  EXPECT_EQ(ReadActiveExperts(run)->evaluations_size(), 3);
}

// Scores of other experts, or of a random choice of them, do not replace those of the run.
TEST_F(KeptResultsTest, OnlyStandardTaskScoresAreStored) {
  v1::RunSpec spec = Spec("toy <run>");
  spec.mutable_model()->mutable_routing()->mutable_token()->set_active_experts(2);
  ASSERT_TRUE(RunDirectory(run_dir_).WriteSpec(spec).ok());
  std::filesystem::create_directories(run_dir_ / "tasks");
  v1::EvaluateTasksRequest request;
  request.set_model(run_dir_.string());
  request.add_tasks()->set_name("piqa");
  const int shots = BuiltinTask("piqa")->num_shots();
  const auto kept_after = [&](const std::vector<int>& active) {
    v1::TasksResult result;
    for (const int number : active) {
      v1::TaskResult* const one = result.add_results();
      one->set_task("piqa");
      one->set_num_shots(shots);
      one->set_active_experts(number);
    }
    EXPECT_TRUE(KeepTasks(request, result).ok());
    v1::TasksResult kept;
    const std::filesystem::path path = run_dir_ / "tasks/result.json";
    EXPECT_TRUE(ParseKeptResult(ReadFile(path).value_or("{}"), path, &kept).ok());
    return kept.results().empty() ? -1 : kept.results(0).active_experts();
  };
  EXPECT_EQ(kept_after({2}), 2);
  for (const int active : {1, 2, 4}) request.add_active_experts(active);
  EXPECT_EQ(kept_after({1, 2, 4}), 2);
  request.clear_active_experts();
  request.set_routing_seed(7);
  EXPECT_EQ(kept_after({3}), 2);
  request.clear_routing_seed();
  request.set_embedding_noise(0.1);
  EXPECT_EQ(kept_after({3}), 2);
}

TEST_F(KeptResultsTest, NotesStayWithTheScoresOfTheirTasks) {
  ASSERT_TRUE(RunDirectory(run_dir_).WriteSpec(Spec("toy")).ok());
  std::filesystem::create_directories(run_dir_ / "tasks");
  const auto notes_after = [&](const std::string& task, const std::string& note) {
    v1::EvaluateTasksRequest request;
    request.set_model(run_dir_.string());
    request.add_tasks()->set_name(task);
    v1::TasksResult result;
    v1::TaskResult* const one = result.add_results();
    one->set_task(task);
    one->set_num_shots(BuiltinTask(task)->num_shots());
    if (!note.empty()) (*result.mutable_skipped())[task] = note;
    EXPECT_TRUE(KeepTasks(request, result).ok());
    v1::TasksResult kept;
    const std::filesystem::path path = run_dir_ / "tasks/result.json";
    EXPECT_TRUE(ParseKeptResult(ReadFile(path).value_or("{}"), path, &kept).ok());
    return std::map<std::string, std::string>(kept.skipped().begin(), kept.skipped().end());
  };
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(notes_after("sst2", "some left out"), ElementsAre(Pair("sst2", "some left out")));
  EXPECT_THAT(notes_after("piqa", ""), ElementsAre(Pair("sst2", "some left out")));
  EXPECT_THAT(notes_after("sst2", ""), ElementsAre());
}

TEST_F(KeptResultsTest, TaskScoresThatAreStoredAtTheSameTimeAreAllKept) {
  ASSERT_TRUE(RunDirectory(run_dir_).WriteSpec(Spec("toy <run>")).ok());
  std::filesystem::create_directories(run_dir_ / "tasks");
  const std::vector<std::string> names = {"piqa", "siqa", "sst2", "race_h", "race_m", "hellaswag"};
  std::vector<std::thread> evaluations;
  for (const std::string& name : names) {
    evaluations.emplace_back([this, &name] {
      v1::EvaluateTasksRequest request;
      request.set_model(run_dir_.string());
      request.add_tasks()->set_name(name);
      v1::TasksResult result;
      result.add_results()->set_task(name);
      result.mutable_results(0)->set_num_shots(BuiltinTask(name)->num_shots());
      EXPECT_TRUE(KeepTasks(request, result).ok());
    });
  }
  for (std::thread& evaluation : evaluations) evaluation.join();
  v1::TasksResult kept;
  const std::filesystem::path path = run_dir_ / "tasks/result.json";
  ASSERT_TRUE(ParseKeptResult(ReadFile(path).value(), path, &kept).ok());
  EXPECT_EQ(kept.results_size(), static_cast<int>(names.size()));
}

// A label head is asked without demonstrations, whatever the task's own number.
TEST_F(KeptResultsTest, TaskScoresOfALabelHeadAreStored) {
  v1::RunSpec spec = Spec("toy <run>");
  spec.mutable_model()->mutable_label_head()->add_classes("negative");
  spec.mutable_model()->mutable_label_head()->add_classes("positive");
  ASSERT_TRUE(RunDirectory(run_dir_).WriteSpec(spec).ok());
  std::filesystem::create_directories(run_dir_ / "tasks");
  ASSERT_GT(BuiltinTask("sst2")->num_shots(), 0);
  v1::EvaluateTasksRequest request;
  request.set_model(run_dir_.string());
  v1::TasksResult result;
  result.add_results()->set_task("sst2");
  const std::filesystem::path path = run_dir_ / "tasks/result.json";
  result.mutable_results(0)->set_num_shots(BuiltinTask("sst2")->num_shots());
  ASSERT_TRUE(KeepTasks(request, result).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  result.mutable_results(0)->set_num_shots(0);
  ASSERT_TRUE(KeepTasks(request, result).ok());
  v1::TasksResult kept;
  ASSERT_TRUE(ParseKeptResult(ReadFile(path).value(), path, &kept).ok());
  EXPECT_EQ(kept.results_size(), 1);
}

}  // namespace kept_results_test
}  // namespace braid
