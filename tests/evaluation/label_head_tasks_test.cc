// Tasks that models answer with a head for labels or numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "braid/v1/analysis.pb.h"
#include "evaluation/expert_activity.h"
#include "runs/run_directory.h"
#include "runs/run_spec.h"
#include "tests/evaluation/task_models_fixture.h"

namespace braid {
namespace label_head_tasks_test {

class LabelHeadTasksTest : public TaskModelsTest {
 protected:
  LabelHeadTasksTest() : base_(NewTextRun(dataset_, 1)) {
    request_.clear_tasks();
    request_.clear_further_models();
    request_.clear_num_shots();
  }

  // Trains a head for a number of steps; returns the run's directory.
  std::string NewHead(const TinyLabels& labels, int64_t steps) {
    const std::filesystem::path dataset = NewDirectory("labels");
    WriteTinySupervised(dataset, TinyLabeledExamples(12, labels.regression), 3, labels);
    std::filesystem::copy_file(dataset_ / "tokenizer.model", dataset / "tokenizer.model",
                               std::filesystem::copy_options::overwrite_existing);
    SealDataset(dataset);
    v1::RunSpec spec = TinyAdapterSpec(dataset, base_, steps);
    spec.clear_finetuning();
    const RunDirectory run(NewDirectory("head"));
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run.root().string();
  }

  const TinyLabels classes_ = {.classes = {"unknown", "true", "false"}, .regression = false};
  const RunDirectory base_;
};

// Their windows hold examples that do not see each other.
TEST_F(LabelHeadTasksTest, AnalysesNeedText) {
  v1::AnalyzeExpertsRequest request;
  request.set_model(NewHead(classes_, 2));
  request.set_num_threads(1);
  EXPECT_FAILS(AnalyzeExperts(request, [](const auto&) {}), absl::StatusCode::kInvalidArgument,
               "examples for fine-tuning", "--data");
}

TEST_F(LabelHeadTasksTest, NumbersAreCorrelatedAndCompared) {
  const TinyLabels numbers = {.classes = {}, .regression = true};
  request_.set_model(NewHead(numbers, 2));
  request_.add_further_models(NewHead(numbers, 9));
  request_.add_tasks()->set_name("stsb");
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  ASSERT_EQ(result.results_size(), 2);
  ASSERT_EQ(result.comparisons_size(), 1);
  EXPECT_EQ(result.comparisons(0).metric(), "pearson");
  EXPECT_NEAR(result.comparisons(0).difference(),
              MetricOf(result.results(1), "pearson").value() -
                  MetricOf(result.results(0), "pearson").value(),
              1e-12);
  // Before the first model, which can answer, is asked.
  request_.set_model(base_.root().string());
  request_.mutable_tasks(0)->set_name("sst2");
  EXPECT_FAILS(Evaluate(), absl::StatusCode::kInvalidArgument,
               request_.further_models(0) + ": task \"sst2\": got answers that are not numbers");
  request_.set_num_shots(2);
  EXPECT_FAILS(Evaluate(), absl::StatusCode::kInvalidArgument, ": num_shots: got 2");
  EXPECT_TRUE(std::filesystem::is_empty(base_.root() / "tasks"));
}

// The demonstrations of a task, which a head never sees, do not separate it from its answers.
TEST_F(LabelHeadTasksTest, ClassesAreComparedOnATaskWithATrainingFile) {
  const std::filesystem::path data = NewDirectory("tasks");
  std::filesystem::create_directories(data / "fever");
  for (const char* const file : {"shared_task_dev.jsonl", "train.jsonl"}) {
    std::filesystem::copy(SampleDirectory() / "fever/shared_task_dev.jsonl", data / "fever" / file);
  }
  request_.set_data_dir(data.string());
  request_.set_model(NewHead(classes_, 2));
  request_.add_further_models(NewHead(classes_, 9));
  request_.add_further_models(base_.root().string());
  request_.add_tasks()->set_name("fever");
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  ASSERT_EQ(result.results_size(), 3);
  EXPECT_EQ(result.results(0).num_shots(), 0);
  EXPECT_EQ(result.results(2).num_shots(), 4);
  EXPECT_EQ(result.comparisons_size(), 2);
}

TEST_F(LabelHeadTasksTest, TasksThatAModelCannotAnswerAreSkippedUnlessNamed) {
  request_.set_model(NewHead({.classes = {}, .regression = true}, 2));
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult numbers, Evaluate());
  ASSERT_EQ(numbers.results_size(), 1);
  EXPECT_EQ(numbers.results(0).task(), "stsb");
  EXPECT_THAT(numbers.skipped().at("sst2"), testing::HasSubstr("are not numbers"));
  request_.set_model(NewHead(classes_, 2));
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult classes, Evaluate());
  ASSERT_EQ(classes.results_size(), 1);
  EXPECT_EQ(classes.results(0).task(), "fever");
  EXPECT_THAT(classes.skipped().at("sst2"), testing::HasSubstr("got the choices negative"));
  EXPECT_THAT(classes.skipped().at("stsb"), testing::HasSubstr("predicts numbers"));
}

// One of the models chooses experts by a routing seed, which the other has no use for.
}  // namespace label_head_tasks_test
}  // namespace braid
