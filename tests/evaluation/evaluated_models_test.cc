// Evaluations of several models together, of models with numbers of experts, and with noise.
#include "evaluation/perplexity.h"
#include "gtest/gtest.h"
#include "runs/run_directory.h"
#include "runs/run_spec.h"
#include "tests/evaluation/evaluation_fixture.h"
#include "trainer/training_state.h"

namespace braid {
namespace evaluated_models_test {

namespace fs = std::filesystem;

constexpr int64_t kSegment = 8;

class EvaluatedModelsTest : public EvaluationFixture {};

// With another tokenizer only files can be scored; pairs are documents and the measure is bits per
// byte.
TEST_F(EvaluatedModelsTest, ModelsOfOtherTokenizersAreComparedByDocument) {
  const fs::path data = NewTextDataset(NewTokenizer("dogs and cats ran 1234567890", 285));
  const fs::path other = NewTextRun(data, 4).root();
  v1::EvaluateRequest request = Request({models_->dense, other});
  ExpectError(request, absl::StatusCode::kFailedPrecondition, "another tokenizer");
  request.add_paths(WriteDocuments().string());
  const v1::EvaluationResult result = Result(request);
  ASSERT_EQ(result.comparisons_size(), 1);
  EXPECT_TRUE(result.comparisons(0).paired_by_document());
  EXPECT_EQ(result.evaluations(0).total().num_bytes(), result.evaluations(1).total().num_bytes());
  const v1::DomainDifference& all = result.comparisons(0).domains(1);
  EXPECT_FALSE(all.has_loss_difference());
  EXPECT_NEAR(all.bits_per_byte_difference(),
              result.evaluations(0).total().bits_per_byte_after_first_segment() -
                  result.evaluations(1).total().bits_per_byte_after_first_segment(),
              1e-12);
  EXPECT_TRUE(all.has_bits_per_byte_difference_interval());
  request.set_max_windows_per_domain(1);
  ExpectError(request, absl::StatusCode::kInvalidArgument, "cut text differently");
}

// Another context gives other windows of the same tokens.
TEST_F(EvaluatedModelsTest, ModelsOfOtherContextsAreComparedByDocument) {
  const fs::path other = NewTextRun(NewTextDataset(models_->tokenizer, 64), 4).root();
  v1::EvaluateRequest request = Request({models_->experts, other});
  const v1::EvaluationResult result = Result(request);
  EXPECT_TRUE(result.comparisons(0).paired_by_document());
  EXPECT_TRUE(result.comparisons(0).domains(0).has_loss_difference());
  EXPECT_EQ(result.evaluations(1).window_length(), 64);
  EXPECT_EQ(result.evaluations(0).total().num_tokens(), result.evaluations(1).total().num_tokens());
}

// Tokens that choose experts for themselves leave out what a dense model does. Segments that fill
// the window leave out nothing.
TEST_F(EvaluatedModelsTest, FirstSegmentsAreThoseOfModelsThatRouteOnOtherTokens) {
  const fs::path chosen = NewTextRun(models_->dataset, 4, v1::TOKEN_CHOICE).root();
  EXPECT_EQ(Result(Request({chosen})).evaluations(0).first_segment_length(), kSegment);
  const fs::path text = NewTextDataset(models_->tokenizer, kSegment);
  const fs::path dense = NewTextRun(text, 1).root(), merged = NewTextRun(text, 4).root();
  const fs::path tokens = NewTextRun(text, 4, v1::TOKEN_CHOICE).root();
  for (const fs::path& other : {merged, tokens}) {
    const v1::EvaluationResult result = Result(Request({dense, other}));
    ASSERT_EQ(result.evaluations_size(), 2);
    for (const v1::Evaluation& evaluation : result.evaluations()) {
      EXPECT_EQ(evaluation.first_segment_length(), 0);
      EXPECT_EQ(evaluation.total().num_tokens_after_first_segment(),
                evaluation.total().num_tokens());
    }
    EXPECT_FALSE(result.evaluations(0).routes_on_itself());
    EXPECT_EQ(result.evaluations(1).routes_on_itself(), other == merged);
    EXPECT_TRUE(result.comparisons(0).domains(2).has_loss_difference_interval());
  }
  v1::RunSpec spec = TinySpec(text, 2);
  spec.mutable_model()->mutable_routing()->set_segment_length(kSegment / 2);
  const RunDirectory halves(NewDirectory("run"));
  ASSERT_TRUE(halves.WriteSpec(spec).ok());
  ASSERT_TRUE(TrainAlone(halves, spec).ok());
  const v1::EvaluationResult result = Result(Request({merged, halves.root()}));
  for (const v1::Evaluation& evaluation : result.evaluations()) {
    EXPECT_EQ(evaluation.first_segment_length(), kSegment / 2);
  }
  EXPECT_TRUE(result.evaluations(0).routes_on_itself());
  EXPECT_FALSE(result.evaluations(1).routes_on_itself());
}

TEST_F(EvaluatedModelsTest, ActiveExpertsAreForTheModelsWhoseTokensChoose) {
  for (const fs::path& model : {models_->dense, models_->experts}) {
    v1::EvaluateRequest request = Request({model});
    request.add_active_experts(77);
    ExpectError(request, absl::StatusCode::kInvalidArgument,
                model.string() + ": active_experts[0]: got 77, but the router is " +
                    (model == models_->dense ? "DENSE" : "CAUSAL_SEGMENT") +
                    ", expected TOKEN_CHOICE");
  }
  const fs::path chosen = NewTextRun(models_->dataset, 4, v1::TOKEN_CHOICE).root();
  v1::EvaluateRequest request = Request({models_->dense, chosen});
  request.add_active_experts(3);
  const v1::EvaluationResult result = Result(request);
  ASSERT_EQ(result.evaluations_size(), 2);
  EXPECT_EQ(result.evaluations(0).active_experts(), 0);
  EXPECT_EQ(result.evaluations(1).active_experts(), 3);
  request.add_active_experts(9);
  ExpectError(request, absl::StatusCode::kInvalidArgument,
              chosen.string() + ": active_experts[1]: got 9, expected 1 to 4");
}

TEST_F(EvaluatedModelsTest, OnlyTheGateReluVariesTheNumberOfExperts) {
  for (const auto gate : {v1::TokenRouting::LINEAR, v1::TokenRouting::RELU}) {
    const fs::path run = NewTextRun(models_->dataset, 4, v1::TOKEN_CHOICE, gate).root();
    EXPECT_EQ(Result(Request({run})).evaluations(0).varying_experts(),
              gate == v1::TokenRouting::RELU);
  }
}

TEST_F(EvaluatedModelsTest, ARoutingSeedChoosesTheExpertsOfTheGateRandom) {
  const RunDirectory run =
      NewTextRun(models_->dataset, 4, v1::TOKEN_CHOICE, v1::TokenRouting::RANDOM);
  v1::EvaluateRequest request = Request({run.root()});
  const v1::Evaluation all = Result(request).evaluations(0);
  EXPECT_EQ(all.active_experts(), 4);
  request.set_routing_seed(7);
  const v1::Evaluation seven = Result(request).evaluations(0);
  EXPECT_EQ(seven.active_experts(), 2);
  EXPECT_NE(seven.total().loss(), all.total().loss());
  EXPECT_EQ(Result(request).evaluations(0).total().loss(), seven.total().loss());
  request.set_routing_seed(8);
  EXPECT_NE(Result(request).evaluations(0).total().loss(), seven.total().loss());
  request.clear_routing_seed();
  request.add_active_experts(2);
  ExpectError(request, absl::StatusCode::kInvalidArgument, "--routing-seed");
  v1::EvaluateRequest dense = Request({models_->dense});
  dense.set_routing_seed(7);
  ExpectError(dense, absl::StatusCode::kInvalidArgument,
              "routing_seed: got 7, but the router is DENSE");
  dense.add_models(run.root().string());
  const v1::EvaluationResult compared = Result(dense);
  EXPECT_EQ(compared.evaluations(1).total().loss(), seven.total().loss());
}

TEST_F(EvaluatedModelsTest, EmbeddingNoiseIsAFunctionOfItsSeedAndReachesFixedWeights) {
  v1::EvaluateRequest request = Request({models_->dense, models_->experts});
  request.add_fixed_weights(v1::UNIFORM_WEIGHTS);
  const auto losses = [&](double noise, uint64_t seed) {
    request.set_embedding_noise(noise);
    request.set_noise_seed(seed);
    std::vector<double> found;
    const v1::EvaluationResult result = Result(request);
    for (const v1::Evaluation& evaluation : result.evaluations()) {
      found.push_back(evaluation.total().loss());
    }
    return found;
  };
  const std::vector<double> plain = losses(0, 1), seven = losses(0.5, 7), eight = losses(0.5, 8);
  ASSERT_EQ(plain.size(), 3u);
  EXPECT_EQ(losses(0, 2), plain);
  EXPECT_EQ(losses(0.5, 7), seven);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NE(seven[i], plain[i]) << i;
    EXPECT_NE(seven[i], eight[i]) << i;
  }
  request.set_embedding_noise(-1);
  ExpectError(request, absl::StatusCode::kInvalidArgument, "embedding_noise: got -1");
}

}  // namespace evaluated_models_test
}  // namespace braid
