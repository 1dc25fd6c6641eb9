// Changing token t must not change any logit before t.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace causality_test {

constexpr int64_t kLength = 24, kSegment = 8, kVocab = 50;

// Returns whether two rows of logits differ: bit by bit where every position takes part in products
// of the same shape; the batch of a chosen expert varies in length, and BLAS rounds by its length.
bool Differ(const v1::ModelConfig& config, const float* a, const float* b) {
  const bool sparse = UsesExperts(config) && !MergesExperts(config.routing());
  const float tolerance = sparse ? 1e-5f : 0;
  return !std::equal(a, a + kVocab, b,
                     [&](float x, float y) { return std::abs(x - y) <= tolerance; });
}

// Returns the positions whose logits differ after token `at` has changed.
std::vector<bool> ChangedPositions(LanguageModel& model, std::vector<int32_t> tokens, int64_t at) {
  const std::vector<float> before = model.Logits(tokens, 1).value();
  tokens[at] = (tokens[at] + 1) % kVocab;
  const std::vector<float> after = model.Logits(tokens, 1).value();
  std::vector<bool> changed(kLength);
  for (int64_t t = 0; t < kLength; ++t) {
    changed[t] = Differ(model.config(), &before[t * kVocab], &after[t * kVocab]);
  }
  return changed;
}

bool AnyBefore(const std::vector<bool>& changed, int64_t end) {
  return std::find(changed.begin(), changed.begin() + end, true) != changed.begin() + end;
}

struct CausalityCase {
  v1::FirstSegment first_segment;
  v1::Router router = v1::CAUSAL_SEGMENT;
};

class CausalityTest : public testing::TestWithParam<CausalityCase> {};

TEST_P(CausalityTest, NoLogitBeforeAChangedTokenChanges) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 12; ++trial) {
    const std::vector<int> moe_layers =
        trial % 4 == 1 ? std::vector<int>{trial % 3 % 2} : std::vector<int>{};
    v1::ModelConfig config = trial % 3 == 0
                                 ? SmallModelConfig(1)
                                 : SmallModelConfig(2 + trial % 4, GetParam().router, moe_layers);
    config.mutable_routing()->set_first_segment(GetParam().first_segment);
    if (trial % 2 == 0) config.mutable_routing()->set_router_input(v1::PLAIN_MEAN);
    const auto model = SharpModel(config, trial);
    const std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random);
    for (int64_t at = 0; at < kLength; ++at) {
      const std::vector<bool> changed = ChangedPositions(*model, tokens, at);
      EXPECT_TRUE(changed[at]) << "trial " << trial << " position " << at;
      // Self routing uses later tokens of the first segment within that segment; positions before
      // any later segment are not affected.
      const bool exempt = GetParam().first_segment == v1::SELF_STOP_GRADIENT && at < kSegment &&
                          !RoutesTokens(model->config().routing());
      EXPECT_FALSE(AnyBefore(changed, exempt ? 0 : at)) << "trial " << trial << " position " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Routers, CausalityTest,
    testing::Values(CausalityCase{v1::SELF_STOP_GRADIENT}, CausalityCase{v1::UNIFORM},
                    CausalityCase{v1::SELF_STOP_GRADIENT, v1::PREFIX},
                    CausalityCase{v1::UNIFORM, v1::PREFIX},
                    CausalityCase{v1::SELF_STOP_GRADIENT, v1::EXPERT_CHOICE_SEGMENT},
                    CausalityCase{v1::UNIFORM, v1::EXPERT_CHOICE_SEGMENT},
                    CausalityCase{v1::SELF_STOP_GRADIENT, v1::EXPERT_CHOICE_TOKEN},
                    CausalityCase{v1::SELF_STOP_GRADIENT, v1::TOKEN_CHOICE}));

// Shows that the exemption above has an effect, and that routing is active.
TEST(CausalityTest, SelfRoutingLeaksTheFutureWithinTheFirstSegmentOnly) {
  std::mt19937 random(18);
  const auto model = SharpModel(SmallModelConfig(4), 1);
  const std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random);
  EXPECT_TRUE(AnyBefore(ChangedPositions(*model, tokens, kSegment - 1), kSegment - 1));
}

TEST(CausalityTest, OtherSequencesOfABatchAreUntouched) {
  for (const v1::Router router : {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT,
                                  v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE}) {
    std::mt19937 random(19);
    const auto model = SharpModel(SmallModelConfig(4, router), 2);
    std::vector<int32_t> tokens = RandomTokens(3 * kLength, kVocab, &random);
    const std::vector<float> before = model->Logits(tokens, 3).value();
    tokens[kLength] = (tokens[kLength] + 1) % kVocab;
    const std::vector<float> after = model->Logits(tokens, 3).value();
    for (int64_t t = 0; t < 3 * kLength; ++t) {
      if (t / kLength == 1) continue;
      EXPECT_FALSE(Differ(model->config(), &before[t * kVocab], &after[t * kVocab])) << t;
    }
  }
}

}  // namespace causality_test
}  // namespace braid
