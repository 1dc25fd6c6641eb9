// Models with pools of experts for each document (TokenRouting.document_pool).
#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "tests/model/random_model.h"

namespace braid {
namespace document_pool_test {

using Token = v1::TokenRouting;
using testing::HasSubstr;

constexpr int64_t kLength = 24, kSegment = 8;
constexpr int kVocab = 50, kExperts = 6, kActive = 2, kPool = 3;
constexpr int32_t kEnd = 3;

// Where documents begin.
enum class Boundaries { kSequence, kSegments, kMask };

v1::ModelConfig Unresolved(Token::Gate gate, Boundaries boundaries) {
  v1::ModelConfig config = SmallModelConfig(kExperts, v1::TOKEN_CHOICE);
  Token* token = config.mutable_routing()->mutable_token();
  token->clear_combine_weights();
  token->set_gate(gate);
  token->set_active_experts(kActive);
  token->set_document_pool(kPool);
  if (boundaries == Boundaries::kSegments) {
    config.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
  }
  if (boundaries == Boundaries::kMask) config.set_attention_mask(v1::DOCUMENT);
  if (boundaries != Boundaries::kSequence) config.set_document_end(kEnd);
  return config;
}

v1::ModelConfig PoolModel(Token::Gate gate, Boundaries boundaries) {
  return ResolveModelConfig(Unresolved(gate, boundaries)).value();
}

// Where documents end, the first has 5 tokens, the second 16 and the third 3.
std::vector<int32_t> TextOf(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random);
  std::ranges::replace(tokens, kEnd, kEnd + 1);
  tokens[4] = tokens[20] = kEnd;
  return tokens;
}

int64_t DocumentBegin(int64_t t, Boundaries boundaries) {
  if (boundaries == Boundaries::kSequence || t < 5) return 0;
  return t < 21 ? 5 : 21;
}

struct PoolCase {
  Token::Gate gate;
  Boundaries boundaries;
};

class DocumentPoolModelTest : public testing::TestWithParam<PoolCase> {
 protected:
  const Boundaries boundaries_ = GetParam().boundaries;
  const std::unique_ptr<LanguageModel> model_ =
      SharpModel(PoolModel(GetParam().gate, boundaries_), 3);
  const std::vector<int32_t> tokens_ = TextOf(7);
};

// The pool by definition, from the probabilities that the layer reports.
std::vector<bool> PoolOf(const LayerRoutingWeights& layer, int64_t begin) {
  std::vector<double> mean(kExperts);
  for (int64_t t = begin; t < begin + kSegment; ++t) {
    for (int e = 0; e < kExperts; ++e) mean[e] += layer.weights[t * kExperts + e] / kSegment;
  }
  std::vector<bool> pool;
  for (const double own : mean) {
    pool.push_back(std::ranges::count_if(mean, [&](double m) { return m > own; }) < kPool);
  }
  return pool;
}

TEST_P(DocumentPoolModelTest, LaterTokensChooseTheBestExpertsOfTheirPool) {
  const TrainResult result = model_->ForwardBackward(tokens_, tokens_, 1, 1, true).value();
  int outside = 0;
  for (const LayerRoutingWeights& layer : result.routing) {
    const auto width = std::ssize(layer.chosen) / kLength;
    for (int64_t t = 0; t < kLength; ++t) {
      const int64_t begin = DocumentBegin(t, boundaries_);
      const std::vector<bool> pool =
          t < begin + kSegment ? std::vector<bool>(kExperts, true) : PoolOf(layer, begin);
      const float* const p = &layer.weights[t * kExperts];
      std::vector<int> ranked;
      for (int e = 0; e < kExperts; ++e) {
        if (pool[e]) ranked.push_back(e);
      }
      std::ranges::sort(ranked, [&](int a, int b) { return p[a] > p[b]; });
      for (int64_t i = 0; i < width; ++i) {
        const int32_t e = layer.chosen[t * width + i];
        if (e < 0) continue;
        EXPECT_TRUE(pool[e]) << t;
        if (GetParam().gate == Token::RELU) continue;
        const auto rank = std::ranges::find(ranked, e) - ranked.begin();
        EXPECT_LT(rank, kActive) << t;
      }
      const auto best = std::max_element(p, p + kExperts) - p;
      outside += !pool[best];
    }
  }
  EXPECT_GT(outside, 0);  // otherwise pools have no effect here
}

TEST_P(DocumentPoolModelTest, NoTokenSeesALaterOne) {
  const auto run = [&](const std::vector<int32_t>& tokens) {
    return model_->Evaluate(tokens, tokens, 1, MergeMode::kSegment, true).value();
  };
  const std::vector<float> before = model_->Logits(tokens_, 1).value();
  const auto routing = run(tokens_).routing;
  for (int64_t at = 0; at < kLength; ++at) {
    if (tokens_[at] == kEnd) continue;
    std::vector<int32_t> changed = tokens_;
    changed[at] = tokens_[at] == 9 ? 10 : 9;
    const std::vector<float> after = model_->Logits(changed, 1).value();
    for (int64_t i = 0; i < at * kVocab; ++i) EXPECT_NEAR(after[i], before[i], 1e-5) << at;
    const auto other = run(changed).routing;
    for (size_t layer = 0; layer < routing.size(); ++layer) {
      const std::vector<int32_t>&a = routing[layer].chosen, &b = other[layer].chosen;
      EXPECT_TRUE(std::equal(a.begin(), a.begin() + at * (std::ssize(a) / kLength), b.begin()));
    }
  }
}

TEST_P(DocumentPoolModelTest, DecodingEqualsTheFullPass) {
  const auto row = [&](const std::vector<float>& all, size_t t) {
    return std::vector<float>(all.begin() + static_cast<int64_t>(t) * kVocab,
                              all.begin() + static_cast<int64_t>(t + 1) * kVocab);
  };
  const std::vector<float> full = model_->Logits(tokens_, 1).value();
  const auto decoder = model_->NewDecoder(MergeMode::kSegment);
  std::vector<float> logits = decoder->Prefill(std::span(tokens_).first(6)).value();
  for (size_t t = 6; t < tokens_.size(); ++t) {
    EXPECT_LT(MaxDifference(logits, row(full, t - 1)), 5e-5) << t;
    logits = decoder->Step(tokens_[t]).value();
  }
  EXPECT_LT(MaxDifference(logits, row(full, kLength - 1)), 5e-5);
  // A prompt that shares a beginning of any length.
  const std::vector<int32_t> other = TextOf(8);
  for (size_t common = 1; common + 1 < tokens_.size(); ++common) {
    std::vector<int32_t> prompt(tokens_.begin(), tokens_.begin() + static_cast<int64_t>(common));
    prompt.insert(prompt.end(), other.begin() + static_cast<int64_t>(common), other.end());
    ASSERT_TRUE(decoder->Prefill(tokens_).ok());
    const std::vector<float> last = decoder->Prefill(prompt).value();
    EXPECT_LT(MaxDifference(last, row(model_->Logits(prompt, 1).value(), kLength - 1)), 5e-5)
        << common;
    EXPECT_GE(decoder->reused_tokens(), static_cast<int64_t>(common));
  }
}

TEST_P(DocumentPoolModelTest, ContinuationsAreScoredAsInTheFullPass) {
  const auto decoder = model_->NewDecoder(MergeMode::kSegment);
  for (const size_t prompt : {3u, 10u, 19u}) {
    ASSERT_TRUE(decoder->Prefill(std::span(tokens_).first(prompt)).ok());
    const std::vector<std::vector<int32_t>> next = {
        {tokens_.begin() + static_cast<int64_t>(prompt), tokens_.end()}, {9, 8, 7}};
    const auto scores = decoder->ScoreContinuations(next).value();
    const auto fork = decoder->Fork().value();
    for (size_t c = 0; c < next.size(); ++c) {
      std::vector<int32_t> text(tokens_.begin(), tokens_.begin() + static_cast<int64_t>(prompt));
      text.insert(text.end(), next[c].begin(), next[c].end());
      std::vector<int32_t> inputs(text.begin(), text.end() - 1), targets(prompt - 1, -1);
      targets.insert(targets.end(), next[c].begin(), next[c].end());
      const auto scored =
          model_->Evaluate(inputs, targets, 1, MergeMode::kSegment, false)->token_loss;
      for (size_t i = 0; i < next[c].size(); ++i) {
        EXPECT_NEAR(scores[c][i], -scored[prompt - 1 + i], 2e-5) << prompt << ' ' << c << ' ' << i;
      }
    }
    EXPECT_EQ(fork->ScoreContinuations(next).value(), scores);
  }
}

INSTANTIATE_TEST_SUITE_P(Gates, DocumentPoolModelTest,
                         testing::Values(PoolCase{Token::LINEAR, Boundaries::kSequence},
                                         PoolCase{Token::LINEAR, Boundaries::kSegments},
                                         PoolCase{Token::COSINE, Boundaries::kMask},
                                         PoolCase{Token::RELU, Boundaries::kSegments},
                                         PoolCase{Token::KEY_MEAN, Boundaries::kSequence}));

TEST(DocumentPoolTest, APoolOfAllExpertsChangesNothing) {
  v1::ModelConfig config = PoolModel(Token::LINEAR, Boundaries::kSequence);
  config.mutable_routing()->mutable_token()->set_document_pool(kExperts);
  const auto all = SharpModel(config, 3);
  config.mutable_routing()->mutable_token()->clear_document_pool();
  const auto none = SharpModel(config, 3);
  EXPECT_EQ(all->values().size(), none->values().size());
  EXPECT_EQ(all->Logits(TextOf(7), 1).value(), none->Logits(TextOf(7), 1).value());
}

std::string ErrorOf(const v1::ModelConfig& config) {
  return std::string(ResolveModelConfig(config).status().message());
}

TEST(DocumentPoolTest, SettingsThatDoNotFitAreRefused) {
  const v1::ModelConfig good = Unresolved(Token::LINEAR, Boundaries::kSequence);
  ASSERT_TRUE(ResolveModelConfig(good).ok());
  const auto token = [](v1::ModelConfig* config) {
    return config->mutable_routing()->mutable_token();
  };
  v1::ModelConfig config = good;
  token(&config)->set_document_pool(1);
  EXPECT_THAT(ErrorOf(config),
              HasSubstr("routing.token.document_pool: got 1, expected active_experts 2 to "
                        "num_experts 6"));
  config = Unresolved(Token::HASH, Boundaries::kSequence);
  EXPECT_THAT(ErrorOf(config), HasSubstr("got 3, but the gate HASH has no scores"));
  config = good;
  token(&config)->set_selection(Token::NOT_TOP);
  EXPECT_THAT(ErrorOf(config), HasSubstr("got 3 with selection NOT_TOP, expected TOP"));
  config = good;
  config.mutable_routing()->set_segment_length(kLength);
  EXPECT_THAT(ErrorOf(config), HasSubstr("routing.segment_length: got 24, expected less than"));
  config = Unresolved(Token::LINEAR, Boundaries::kSegments);
  config.mutable_routing()->set_reset_at_documents(true);
  EXPECT_THAT(ErrorOf(config), HasSubstr("routing.reset_at_documents: got true, but the router"));
  const auto model = SharpModel(PoolModel(Token::LINEAR, Boundaries::kSequence), 3);
  EXPECT_THAT(model->NewDecoder(MergeMode::kSegment, 4)->Prefill(TextOf(7)).status().message(),
              HasSubstr("active_experts: got 4, expected at most document_pool 3"));
}

}  // namespace document_pool_test
}  // namespace braid
