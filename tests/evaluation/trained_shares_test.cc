#include "evaluation/trained_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "evaluation/evaluate_tasks.h"
#include "runs/run_directory.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/sample_tasks.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace trained_shares_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A home with a run that was tuned on most of sst2, and a run that started from it.
class TrainedSharesTest : public testing::Test {
 protected:
  TrainedSharesTest() {
    fs::create_directories(runs_);
    const fs::path tokenizer = NewTokenizer("a film is positive or negative", 275);
    const fs::path tuned_on = NewTextDataset(tokenizer, 128);
    fs::rename(NewTextRun(tuned_on, 1).root(), runs_ / "run-000001");
    fs::rename(NewTextRun(NewTextDataset(tokenizer, 128), 1).root(), second());
    PutFile(tuned_on / "supervised.json", R"({"task_shares": {"sst2": 0.75}})");
  }

  fs::path second() const { return runs_ / "run-000002"; }

  void StartFrom(const std::string& reference) {
    ASSERT_OK_AND_ASSIGN(v1::RunSpec spec, RunDirectory(second()).ReadSpec());
    spec.set_init_from(reference);
    ASSERT_OK(RunDirectory(second()).WriteSpec(spec));
  }

  // Returns the note of the second run; "error" after an error.
  std::string Add(TrainedShares* trained) const {
    const auto model = FindModel(second(), /*strict=*/true);
    EXPECT_OK(model);
    if (!model.ok()) return "error";
    const auto note = AddTrainedShares("second", *model, trained);
    EXPECT_OK(note);
    return note.value_or("error");
  }

  const fs::path runs_ = NewDirectory("home") / "runs";
};

// A spec has the checkpoint, or the run, at the path of its time.
TEST_F(TrainedSharesTest, PredecessorsOfAMovedHomeAreBesideTheRun) {
  for (const std::string& reference :
       {(runs_ / "run-000001").string(), std::string("/moved/runs/run-000001"),
        std::string("/moved/runs/run-000001@ema"),
        std::string("/moved/runs/run-000001/checkpoints/step-00000002"),
        std::string("/moved/runs/run-000001/checkpoints/step-00000002@ema")}) {
    StartFrom(reference);
    TrainedShares trained;
    EXPECT_EQ(Add(&trained), "") << reference;
    ASSERT_TRUE(trained.contains("sst2")) << reference;
    EXPECT_EQ(trained["sst2"].share, 0.75);
    EXPECT_EQ(trained["sst2"].model, "second");
  }
}

TEST_F(TrainedSharesTest, PredecessorsThatAreMissingAreNamed) {
  StartFrom("/moved/runs/run-000009/checkpoints/step-00000002");
  TrainedShares trained;
  EXPECT_THAT(Add(&trained),
              AllOf(HasSubstr("second: examples that a model before it"),
                    HasSubstr("/moved/runs/run-000009/checkpoints/step-00000002 does not exist")));
  EXPECT_TRUE(trained.empty());
  v1::EvaluateTasksRequest request;
  request.set_model(second().string());
  request.add_tasks()->set_name("sst2");
  request.set_data_dir(SampleDirectory().string());
  request.set_num_shots(0);
  request.set_num_threads(1);
  v1::TasksResult result;
  ASSERT_OK(EvaluateTasks(request, [&](const v1::EvaluateTasksEvent& event) {
    if (event.has_result()) result = event.result();
  }));
  ASSERT_EQ(result.skipped_size(), 1);
  EXPECT_THAT(result.skipped().at(second().string()), HasSubstr("run-000009"));
}

}  // namespace trained_shares_test
}  // namespace braid
