// Evaluation of models whose label head predicts numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "evaluation/tasks/answer_log.h"
#include "evaluation/tasks/task_evaluation.h"
#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/fake_decoder.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace number_task_test {

class NumberTaskTest : public testing::Test {
 protected:
  static constexpr int64_t kLength = 1024;

  NumberTaskTest() {
    model_.codec = ByteCodec();
    model_.context_length = kLength;
    model_.identity = "fake";
    model_.predicts_numbers = true;
    model_.new_decoder = [](v1::InferenceRouting) {
      return std::make_unique<FakeDecoder>(1, kLength);
    };
  }
  TaskEvaluationOptions Options() {
    TaskEvaluationOptions options;
    options.answers_dir = scratch_.path();
    return options;
  }
  absl::StatusOr<v1::TaskResult> EvaluateNumbers(const LoadedTask& task,
                                                 const TaskEvaluationOptions& options) {
    return EvaluateTask(task, model_, options, [](int64_t, int64_t) {});
  }

  ScratchDirectory scratch_;
  AskedModel model_;
};

TEST_F(NumberTaskTest, TheOutputAfterTheBarePromptIsThePrediction) {
  const LoadedTask task = SampleTask("stsb");
  ASSERT_EQ(task.examples[2].number, 3.25);
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const TaskExample& example : task.examples) {
    std::vector<int32_t> prompt = model_.codec.encode(example.prompts[0]);
    prompt.insert(prompt.begin(), model_.codec.eos_id);
    const double right = example.number, predicted = FakeLogits(prompt, 1)[0];
    n += 1, x += right, y += predicted;
    xx += right * right, yy += predicted * predicted, xy += right * predicted;
  }
  TaskEvaluationOptions options = Options();
  options.want_examples = true;
  ASSERT_OK_AND_ASSIGN(const v1::TaskResult result, EvaluateNumbers(task, options));
  ASSERT_EQ(result.metrics_size(), 1);
  EXPECT_EQ(result.metrics(0).name(), "pearson");
  EXPECT_NEAR(result.metrics(0).value(),
              (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y)), 1e-9);
  EXPECT_LE(result.metrics(0).interval().low(), result.metrics(0).value());
  EXPECT_GE(result.metrics(0).interval().high(), result.metrics(0).value());
  EXPECT_EQ(result.chance(), 0);
  EXPECT_FALSE(result.examples(0).has_score());
  // The numbers are read from the log the next time.
  ASSERT_OK_AND_ASSIGN(const v1::TaskResult again, EvaluateNumbers(task, options));
  EXPECT_EQ(again.SerializeAsString(), result.SerializeAsString());
  ASSERT_OK_AND_ASSIGN(const auto answers, StoredAnswers(task, model_, options));
  EXPECT_TRUE(answers[0].number.has_value());
}

TEST_F(NumberTaskTest, OtherModelsAndTasksAreRefused) {
  const LoadedTask task = SampleTask("stsb");
  EXPECT_FAILS(EvaluateNumbers(SampleTask("sst2"), Options()), absl::StatusCode::kInvalidArgument,
               "task \"sst2\": got answers that are not numbers, expected a task such as stsb");
  TaskEvaluationOptions options = Options();
  options.num_shots = 1;
  EXPECT_FAILS(EvaluateNumbers(task, options), absl::StatusCode::kInvalidArgument,
               "num_shots: got 1, expected 0");
  const std::filesystem::path path = AnswersPath(task, model_, Options());
  const std::string members = R"("example":0,"shots":0,"text":"3"})";
  PutFile(path, "{}\n{\"crc32c\":\"" + Crc32cToHex(Crc32c("{" + members)) + "\"," + members + "\n");
  EXPECT_FAILS(EvaluateNumbers(task, Options()), absl::StatusCode::kDataLoss, path.string() + ":2");
  model_.predicts_numbers = false;
  EXPECT_FAILS(EvaluateNumbers(task, Options()), absl::StatusCode::kInvalidArgument,
               "task \"stsb\": got answers that are numbers, expected a model whose label head "
               "predicts numbers");
}

TEST_F(NumberTaskTest, APredictionThatIsNotFiniteIsAnError) {
  const LoadedTask task = SampleTask("stsb");
  model_.new_decoder = [](v1::InferenceRouting) {
    auto decoder = std::make_unique<FakeDecoder>(1, kLength);
    decoder->SayNaN();
    return decoder;
  };
  EXPECT_FAILS(EvaluateNumbers(task, Options()), absl::StatusCode::kInternal, "stsb", "nan");
}

TEST_F(NumberTaskTest, TextsThatAreNotNumbersNameTheirPlace) {
  for (const char* const text : {"four", "", "nan", "1e999"}) {
    PutFile(scratch_ / "dev.tsv",
            std::string("sentence1\tsentence2\tscore\na\tb\t1\na\tb\t") + text + "\n");
    v1::TaskSpec spec = BuiltinTask("stsb").value();
    spec.set_folder(".");
    EXPECT_FAILS(LoadTask(spec, scratch_.path(), 0), absl::StatusCode::kInvalidArgument,
                 "dev.tsv:3: field \"score\": got \"", text, "expected a finite number");
  }
}

}  // namespace number_task_test
}  // namespace braid
