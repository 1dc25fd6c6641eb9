// The loss of the right answer against a slow version, token by token.
#include "evaluation/tasks/answer_loss.h"

#include <cmath>

#include "evaluation/tasks/task_evaluation.h"
#include "evaluation/tasks/task_figures.h"
#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/fake_decoder.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace answer_loss_test {

constexpr int kVocabulary = 257;
constexpr int64_t kContext = 2048;

std::vector<int32_t> AfterEos(const std::string& text) {
  std::vector<int32_t> tokens = ByteCodec().encode(text);
  tokens.insert(tokens.begin(), 0);
  return tokens;
}

double SlowLogProb(const LoadedTask& task, int shots, const TaskExample& example, size_t prompt,
                   const std::string& answer) {
  const DemonstrationSet set(task, shots, 0, ByteCodec());
  const std::string context = PromptText(task.spec, set.For(example), example.prompts[prompt]);
  return SlowScore(AfterEos(context), ByteCodec().encode(DelimiterOf(task.spec) + answer),
                   kVocabulary);
}

double SlowLoss(const LoadedTask& task, int shots, const TaskExample& example) {
  if (task.spec.has_free()) return -SlowLogProb(task, shots, example, 0, example.references[0]);
  double sum = 0, right = 0;
  for (size_t i = 0; i < example.continuations.size(); ++i) {
    const size_t prompt = example.prompts.size() == 1 ? 0 : i;
    const double share =
        std::exp(SlowLogProb(task, shots, example, prompt, example.continuations[i]));
    sum += share;
    if (static_cast<int>(i) == example.gold) right = share;
  }
  return -std::log(right / sum);
}

class AnswerLossTest : public testing::Test {
 protected:
  v1::TaskResult Evaluate(const LoadedTask& task, int shots, bool want_examples = true) {
    AskedModel model;
    model.codec = ByteCodec();
    model.context_length = kContext;
    model.identity = "fake";
    model.new_decoder = [this](v1::InferenceRouting) {
      auto decoder = std::make_unique<FakeDecoder>(kVocabulary, kContext);
      decoder_ = decoder.get();
      return decoder;
    };
    TaskEvaluationOptions options;
    options.answers_dir = scratch_.path();
    options.num_shots = shots;
    options.want_examples = want_examples;
    const auto count = [this](int64_t done, int64_t total) {
      if (done == total) prefills_ = decoder_->prefills();
    };
    return EvaluateTask(task, model, options, count).value();
  }

  ScratchDirectory scratch_;
  FakeDecoder* decoder_ = nullptr;
  int64_t prefills_ = 0;
};

TEST_F(AnswerLossTest, IsThatOfTokensOneByOne) {
  // Short answers, so that their probabilities are not too small for a plain sum.
  for (const char* name : {"sst2", "agnews", "boolq", "mrpc", "fever", "mawps", "nq"}) {
    SCOPED_TRACE(name);
    LoadedTask task = SampleTask(name);
    task.spec.clear_figures();
    task.spec.add_figures(v1::ANSWER_LOSS);
    for (const int shots : {0, 1}) {
      const v1::TaskResult result = Evaluate(task, shots);
      ASSERT_EQ(result.examples_size(), static_cast<int>(task.examples.size()));
      double sum = 0;
      for (int i = 0; i < result.examples_size(); ++i) {
        const double slow = SlowLoss(task, shots, task.examples[static_cast<size_t>(i)]);
        EXPECT_NEAR(result.examples(i).answer_loss(), slow, 1e-3) << i;
        EXPECT_EQ(result.examples(i).score(), result.examples(i).answer_loss());
        sum += slow;
      }
      ASSERT_EQ(result.metrics_size(), 1);
      EXPECT_EQ(result.metrics(0).name(), "answer_loss");
      EXPECT_NEAR(result.metrics(0).value(), sum / result.examples_size(), 1e-3);
    }
  }
}

TEST_F(AnswerLossTest, ExamplesHaveTheirPartOfTheMainFigure) {
  for (const char* name : {"sst2", "piqa", "mawps", "nq"}) {
    const v1::TaskResult result = Evaluate(SampleTask(name), 0);
    double sum = 0;
    for (const v1::TaskExample& example : result.examples()) sum += example.score();
    EXPECT_NEAR(sum / result.examples_size(), result.metrics(0).value(), 1e-12) << name;
  }
  LoadedTask whole = SampleTask("mrpc");
  whole.spec.clear_figures();
  whole.spec.add_figures(v1::F1);
  EXPECT_FALSE(Evaluate(whole, 0).examples(0).has_score());
  EXPECT_TRUE(Evaluate(SampleTask("sst2"), 0, /*want_examples=*/false).examples().empty());
}

// Answers that were stored without a reference's score are completed, and are then reused.
TEST_F(AnswerLossTest, IsAddedToStoredAnswers) {
  const LoadedTask task = SampleTask("nq");
  const v1::TaskResult plain = Evaluate(task, 0, /*want_examples=*/false);
  const v1::TaskResult completed = Evaluate(task, 0);
  EXPECT_EQ(prefills_, 2 * completed.examples_size());
  const v1::TaskResult again = Evaluate(task, 0);
  EXPECT_EQ(prefills_, 0);
  EXPECT_EQ(completed.SerializeAsString(), again.SerializeAsString());
  EXPECT_EQ(plain.metrics(0).value(), again.metrics(0).value());
}

// No text is written where only the loss counts: one prefill for each example.
TEST_F(AnswerLossTest, WritesNothingWhereOnlyTheLossCounts) {
  LoadedTask task = SampleTask("mawps");
  task.spec.clear_figures();
  task.spec.add_figures(v1::ANSWER_LOSS);
  Evaluate(task, 0, /*want_examples=*/false);
  EXPECT_EQ(prefills_, static_cast<int64_t>(task.examples.size()));
}

TEST(AnswerLossFormulaTest, OverflowsAtNoScores) {
  LoadedTask task = SampleTask("sst2");
  task.examples.resize(1);
  task.examples[0].gold = 1;
  ExampleAnswer answer;
  answer.choices = {{-2000, 1, 0}, {-2001, 1, 0}};
  EXPECT_NEAR(AnswerLoss(task, answer), std::log(1 + std::exp(1.0)), 1e-12);
}

}  // namespace answer_loss_test
}  // namespace braid
