// A request that evaluates two small models on tasks, from checkpoints on disk.
#ifndef BRAID_TESTS_EVALUATION_TASK_MODELS_FIXTURE_H_
#define BRAID_TESTS_EVALUATION_TASK_MODELS_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "braid/v1/evaluation.pb.h"
#include "evaluation/evaluate_tasks.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/sample_tasks.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {

class TaskModelsTest : public testing::Test {
 protected:
  TaskModelsTest() {
    request_.set_model(NewTextRun(dataset_, 1).root().string());
    request_.add_further_models(NewTextRun(dataset_, 4).root().string());
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

  const std::filesystem::path tokenizer_ = NewTokenizer("a film is positive or negative", 275);
  const std::filesystem::path dataset_ = NewTextDataset(tokenizer_, 128);
  const ScratchDirectory scratch_;
  v1::EvaluateTasksRequest request_;
};

inline const v1::TaskMetric& MetricOf(const v1::TaskResult& result, const std::string& name) {
  for (const v1::TaskMetric& metric : result.metrics()) {
    if (metric.name() == name) return metric;
  }
  ADD_FAILURE() << name;
  return result.metrics(0);
}

// The dense model has one result per task; each of the expert model's two is compared with it.
}  // namespace braid

#endif  // BRAID_TESTS_EVALUATION_TASK_MODELS_FIXTURE_H_
