// Several models in one evaluation of tasks, from checkpoints on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "evaluation/evaluate_tasks.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/sample_tasks.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace further_models_test {

class FurtherModelsTest : public testing::Test {
 protected:
  FurtherModelsTest() {
    const auto dataset = NewTextDataset(NewTokenizer("a film is positive or negative", 275), 128);
    request_.set_model(NewTextRun(dataset, 1).root().string());
    request_.add_further_models(NewTextRun(dataset, 4).root().string());
    request_.add_tasks()->set_name("sst2");
    request_.add_tasks()->set_name("cola");
    request_.set_data_dir(SampleDirectory().string());
    request_.set_num_shots(0);
    request_.set_num_threads(1);
  }

  absl::StatusOr<v1::TasksResult> Evaluate() {
    v1::TasksResult result;
    const absl::Status status = EvaluateTasks(request_, [&](const v1::EvaluateTasksEvent& event) {
      if (event.has_result()) result = event.result();
    });
    if (!status.ok()) return status;
    return result;
  }

  v1::EvaluateTasksRequest request_;
};

const v1::TaskMetric& MetricOf(const v1::TaskResult& result, const std::string& name) {
  for (const v1::TaskMetric& metric : result.metrics()) {
    if (metric.name() == name) return metric;
  }
  ADD_FAILURE() << name;
  return result.metrics(0);
}

// The dense model has one result per task; each of the expert model's two is compared with it.
TEST_F(FurtherModelsTest, AreComparedWithTheFirst) {
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  const std::string first = request_.model(), second = request_.further_models(0);
  EXPECT_EQ(result.further_sources_size(), 1);
  ASSERT_EQ(result.results_size(), 2 + 4);
  ASSERT_EQ(result.comparisons_size(), 2 * (1 + 2));
  for (const v1::TaskComparison& comparison : result.comparisons()) {
    EXPECT_EQ(comparison.baseline(), first);
    EXPECT_EQ(comparison.model(), second);
    double before = 0, after = 0;
    for (const v1::TaskResult& one : result.results()) {
      if (one.task() != comparison.task()) continue;
      const double value = MetricOf(one, comparison.metric()).value();
      if (one.model() == first) before = value;
      if (one.model() == second && one.routing() == comparison.routing()) after = value;
    }
    EXPECT_NEAR(comparison.difference(), after - before, 1e-12);
    if (comparison.metric() != "acc") continue;
    EXPECT_LE(comparison.interval().low(), comparison.difference());
    EXPECT_GE(comparison.interval().high(), comparison.difference());
  }
  // Answers are stored as those of one model are.
  request_.clear_further_models();
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult alone, Evaluate());
  EXPECT_EQ(alone.comparisons_size(), 0);
  EXPECT_EQ(alone.results(0).model(), "");
  EXPECT_EQ(alone.results(0).metrics(0).value(), result.results(0).metrics(0).value());
}

TEST_F(FurtherModelsTest, BadRequestsAreNamed) {
  request_.add_further_models(request_.model());
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument, "further_models: got ",
               "twice");
  request_.mutable_further_models()->RemoveLast();
  request_.add_active_experts(1);
  request_.add_active_experts(2);
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument, "active_experts: got 2",
               "further_models");
  request_.clear_active_experts();
  request_.set_further_models(0, "/nowhere/at/all");
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kNotFound, "/nowhere/at/all");
}

}  // namespace further_models_test
}  // namespace braid
