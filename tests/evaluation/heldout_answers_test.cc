// Perplexity on the held-out examples of a supervised dataset.
#include "evaluation/heldout_answers.h"

#include "cli/corpus_documents.h"
#include "evaluation/perplexity.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace heldout_answers_test {

namespace fs = std::filesystem;

constexpr char kSentence[] = "the cat sat on the mat and the dog ran after the cat. ";
constexpr int64_t kLength = 32;
constexpr int64_t kHeldout = 4;  // examples that WriteTinySupervised holds out

class HeldoutAnswersTest : public testing::Test {
 protected:
  fs::path NewAnswers(int64_t per_instance) {
    const fs::path dataset = NewDirectory("answers");
    WriteTinySupervised(dataset, TinyExamples(6), per_instance);
    fs::copy_file(tokenizer_, dataset / "tokenizer.model", fs::copy_options::overwrite_existing);
    SealDataset(dataset);
    return dataset;
  }

  absl::StatusOr<v1::EvaluationResult> Score(const fs::path& run, const fs::path& dataset) {
    v1::EvaluateRequest request;
    request.add_models(run.string());
    request.set_dataset_dir(dataset.string());
    request.set_num_threads(1);
    v1::EvaluationResult result;
    const absl::Status status =
        Evaluate(request, ReadCorpusDocuments,
                 [&](const v1::EvaluateEvent& event) { result = event.result(); });
    if (!status.ok()) return status;
    return result;
  }

  // Scores each example by itself, with the padding that a router sees in its first segment.
  static std::pair<double, int64_t> NaiveSums(const fs::path& run) {
    const auto model = LoadModel(run / "checkpoints/step-00000002").value();
    double nats = 0;
    int64_t count = 0;
    for (const TinyExample& example : TinyExamples(kHeldout, 77)) {
      std::vector<int32_t> tokens = example.tokens;
      tokens.resize(kLength + 1, 2);
      const std::vector<int32_t> inputs(tokens.begin(), tokens.end() - 1);
      const std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
      const auto result = *model->Evaluate(inputs, targets, 1, MergeMode::kSegment, false);
      for (const auto& [begin, end] : example.answers) {
        for (int32_t t = begin; t < end; ++t, ++count) nats += result.token_loss[t - 1];
      }
    }
    return {nats, count};
  }

  const fs::path tokenizer_ = NewTokenizer(kSentence, 280);
  const fs::path text_ = NewTextDataset(tokenizer_);
};

TEST_F(HeldoutAnswersTest, CountAnswersOfExamplesThatSeeOnlyThemselves) {
  for (const int experts : {1, 4}) {
    const fs::path run = NewTextRun(text_, experts).root();
    const auto [nats, count] = NaiveSums(run);
    for (const int64_t per_instance : {1, 3}) {
      if (experts > 1 && per_instance > 1) continue;
      ASSERT_OK_AND_ASSIGN(const v1::EvaluationResult result, Score(run, NewAnswers(per_instance)));
      const v1::DomainEvaluation& all = result.evaluations(0).total();
      EXPECT_EQ(all.num_windows(), per_instance == 1 ? kHeldout : 2);
      EXPECT_EQ(all.num_tokens(), count);
      EXPECT_EQ(all.num_tokens_after_first_segment(), count);
      EXPECT_EQ(result.evaluations(0).first_segment_length(), 0);
      EXPECT_NEAR(all.loss(), nats / static_cast<double>(count), 1e-4) << experts;
      EXPECT_EQ(all.loss(), all.loss_after_first_segment());
      EXPECT_GT(all.num_bytes(), 0);
    }
  }
}

TEST_F(HeldoutAnswersTest, RefuseSharedSequencesForRoutersThatWouldMixThem) {
  const fs::path run = NewTextRun(text_, 4).root();
  EXPECT_FAILS(Score(run, NewAnswers(3)).status(), absl::StatusCode::kInvalidArgument,
               "several examples", "prepare the dataset");
}

TEST_F(HeldoutAnswersTest, RefuseSequencesLongerThanTheContext) {
  const fs::path run = NewTextRun(NewTextDataset(tokenizer_, 16), 1).root();
  EXPECT_FAILS(Score(run, NewAnswers(1)).status(), absl::StatusCode::kFailedPrecondition,
               "sequence_length 32", "16");
}

// Without their only segment, windows would have no token.
TEST_F(HeldoutAnswersTest, WindowsOfOneSegmentCountFully) {
  const fs::path text = NewTextDataset(tokenizer_, 8);
  for (const v1::Router router : {v1::DENSE, v1::CAUSAL_SEGMENT, v1::TOKEN_CHOICE}) {
    ASSERT_OK_AND_ASSIGN(const v1::EvaluationResult result,
                         Score(NewTextRun(text, router == v1::DENSE ? 1 : 4, router).root(), text));
    const v1::Evaluation& evaluation = result.evaluations(0);
    const v1::DomainEvaluation& total = evaluation.total();
    EXPECT_EQ(total.num_tokens_after_first_segment(), total.num_tokens());
    EXPECT_EQ(total.perplexity_after_first_segment(), total.perplexity());
    EXPECT_GT(total.perplexity(), 1);
    EXPECT_EQ(evaluation.first_segment_length(), 0);
    EXPECT_EQ(evaluation.routes_on_itself(), router == v1::CAUSAL_SEGMENT);
  }
}

}  // namespace heldout_answers_test
}  // namespace braid
