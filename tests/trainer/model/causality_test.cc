// Changing token t must not change any logit before t.
#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/trainer/model/random_model.h"

namespace braid {
namespace {

constexpr int64_t kLength = 24, kSegment = 8, kVocab = 50;

// Positions whose logits differ at all after token `at` has changed.
std::vector<bool> ChangedPositions(LanguageModel& model, std::vector<int32_t> tokens, int64_t at) {
  const std::vector<float> before = model.Logits(tokens, 1).value();
  tokens[at] = (tokens[at] + 1) % kVocab;
  const std::vector<float> after = model.Logits(tokens, 1).value();
  std::vector<bool> changed(kLength);
  for (int64_t t = 0; t < kLength; ++t) {
    changed[t] = !std::equal(&before[t * kVocab], &before[t * kVocab] + kVocab, &after[t * kVocab]);
  }
  return changed;
}

bool AnyBefore(const std::vector<bool>& changed, int64_t end) {
  return std::find(changed.begin(), changed.begin() + end, true) != changed.begin() + end;
}

class CausalityTest : public testing::TestWithParam<v1::FirstSegment> {};

TEST_P(CausalityTest, NoLogitBeforeAChangedTokenChanges) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 12; ++trial) {
    v1::ModelConfig config = SmallModelConfig(trial % 3 == 0 ? 1 : 2 + trial % 4);
    config.mutable_routing()->set_first_segment(GetParam());
    if (trial % 2 == 0) config.mutable_routing()->set_router_input(v1::PLAIN_MEAN);
    const auto model = SharpModel(config, trial);
    const std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random);
    for (int64_t at = 0; at < kLength; ++at) {
      const std::vector<bool> changed = ChangedPositions(*model, tokens, at);
      EXPECT_TRUE(changed[at]) << "trial " << trial << " position " << at;
      // Self routing lets the first segment see its own later tokens; what comes
      // before a later segment is never touched.
      const bool exempt = GetParam() == v1::SELF_STOP_GRADIENT && at < kSegment;
      EXPECT_FALSE(AnyBefore(changed, exempt ? 0 : at)) << "trial " << trial << " position " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FirstSegments, CausalityTest,
                         testing::Values(v1::SELF_STOP_GRADIENT, v1::UNIFORM));

// So that the exemption above is about something, and routing is live at all.
TEST(CausalityTest, SelfRoutingShowsTheFirstSegmentItsOwnFuture) {
  std::mt19937 random(18);
  const auto model = SharpModel(SmallModelConfig(4), 1);
  const std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random);
  EXPECT_TRUE(AnyBefore(ChangedPositions(*model, tokens, kSegment - 1), kSegment - 1));
}

TEST(CausalityTest, OtherSequencesOfABatchAreUntouched) {
  std::mt19937 random(19);
  const auto model = SharpModel(SmallModelConfig(4), 2);
  std::vector<int32_t> tokens = RandomTokens(3 * kLength, kVocab, &random);
  const std::vector<float> before = model->Logits(tokens, 3).value();
  tokens[kLength] = (tokens[kLength] + 1) % kVocab;
  const std::vector<float> after = model->Logits(tokens, 3).value();
  const int64_t row = kLength * kVocab;
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + row, after.begin()));
  EXPECT_TRUE(std::equal(before.begin() + 2 * row, before.end(), after.begin() + 2 * row));
}

}  // namespace
}  // namespace braid
