// Noise on the token embeddings outside training (LanguageModel::SetInputNoise).
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "model/config/model_config.h"
#include "model/language_model.h"
#include "tests/base/status_matchers.h"
#include "tests/model/random_model.h"

namespace braid {
namespace input_noise_test {

// Returns ln p of `token` under logits [V].
double LogProbability(std::span<const float> logits, int32_t token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  return logits[static_cast<size_t>(token)] - std::log(sum);
}

TEST(InputNoiseTest, IsTheSameInEveryBatchDecoderAndContinuation) {
  v1::ModelConfig gpt2 = SmallModelConfig(1), documents = SmallModelConfig(1);
  gpt2.set_family(v1::GPT2);
  gpt2.clear_rope_theta();
  documents.set_attention_mask(v1::DOCUMENT);
  documents.set_document_end(3);
  for (const v1::ModelConfig& asked : {SmallModelConfig(1), SmallModelConfig(4), gpt2, documents}) {
    const v1::ModelConfig config = ResolveModelConfig(asked).value();
    const auto model = SharpModel(config, 3);
    std::mt19937 random(5);
    std::vector<int32_t> tokens = RandomTokens(32, config.vocab_size(), &random);
    tokens[6] = tokens[19] = 3;
    const size_t vocabulary = static_cast<size_t>(config.vocab_size());
    const std::vector<float> plain = model->Logits(tokens, 2).value();
    ASSERT_OK(model->SetInputNoise(0.5, 7));
    const std::vector<float> noisy = model->Logits(tokens, 2).value();
    EXPECT_GT(MaxDifference(noisy, plain), 1e-2);
    const std::span<const int32_t> first = std::span<const int32_t>(tokens).first(16);
    const std::vector<float> whole(noisy.begin(), noisy.begin() + 16 * vocabulary);
    EXPECT_LT(MaxDifference(model->Logits(first, 1).value(), whole), 1e-5);
    const auto row = [&](size_t t) { return std::span(whole).subspan(t * vocabulary, vocabulary); };

    const auto decoder = model->NewDecoder(MergeMode::kSegment);
    std::vector<float> logits = decoder->Prefill(first.first(8)).value();
    const std::vector<int32_t> rest(first.begin() + 8, first.end());
    const auto scores =
        decoder->ScoreContinuations(std::vector<std::vector<int32_t>>{rest}).value();
    for (size_t i = 0; i < rest.size(); ++i) {
      EXPECT_NEAR(scores[0][i], LogProbability(row(7 + i), rest[i]), 1e-4);
      const std::vector<float> expected(row(7 + i).begin(), row(7 + i).end());
      EXPECT_LT(MaxDifference(logits, expected), 1e-4) << i;
      Decoder* const alone[] = {decoder.get()};
      logits = i % 2 == 0 ? decoder->Step(rest[i]).value()
                          : model->StepTogether(alone, {&rest[i], 1}).value()[0];
    }
    ASSERT_OK(model->SetInputNoise(0.5, 8));
    EXPECT_GT(MaxDifference(model->Logits(tokens, 2).value(), noisy), 1e-2);
    ASSERT_OK(model->SetInputNoise(0, 8));
    EXPECT_EQ(model->Logits(tokens, 2).value(), plain);
    EXPECT_FAILS(model->SetInputNoise(-1, 0), absl::StatusCode::kInvalidArgument,
                 "embedding_noise: got -1");
  }
}

}  // namespace input_noise_test
}  // namespace braid
