#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/decoder.h"
#include "tests/model/random_model.h"

namespace braid {
namespace continuation_scores_test {

using Continuations = std::vector<std::vector<int32_t>>;

constexpr int64_t kLength = 24, kVocab = 50;
constexpr MergeMode kModes[] = {MergeMode::kSegment, MergeMode::kPrompt};

double LogProbability(const std::vector<float>& logits, int32_t token) {
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  return logits[token] - std::log(sum);
}

// Scores one token at a time, with a separate decoder.
std::vector<float> StepByStep(LanguageModel& model, MergeMode mode, std::span<const int32_t> prompt,
                              const std::vector<int32_t>& continuation) {
  const auto decoder = model.NewDecoder(mode);
  std::vector<float> logits = decoder->Prefill(prompt).value(), scores;
  for (size_t i = 0; i < continuation.size(); ++i) {
    if (i > 0) logits = decoder->Step(continuation[i - 1]).value();
    scores.push_back(static_cast<float>(LogProbability(logits, continuation[i])));
  }
  return scores;
}

class ContinuationScoresTest : public testing::Test {
 protected:
  std::vector<int32_t> Tokens(size_t count) { return RandomTokens(count, kVocab, &random_); }

  // Returns one token, all that fits, and lengths between, in random order.
  Continuations RandomContinuations(size_t room) {
    Continuations all = {Tokens(1), Tokens(room)};
    for (int i = 0; i < 3; ++i) all.push_back(Tokens(1 + random_() % room));
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  void ExpectAsStepByStep(LanguageModel& model, MergeMode mode, std::span<const int32_t> prompt) {
    const Continuations continuations = RandomContinuations(kLength - prompt.size());
    const auto decoder = model.NewDecoder(mode);
    ASSERT_TRUE(decoder->Prefill(prompt).ok());
    const auto scores = decoder->ScoreContinuations(continuations).value();
    ASSERT_EQ(scores.size(), continuations.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_LT(MaxDifference(scores[i], StepByStep(model, mode, prompt, continuations[i])), 1e-4)
          << "continuation of " << continuations[i].size() << " tokens";
    }
  }

  std::mt19937 random_{31};
};

TEST_F(ContinuationScoresTest, EqualTokenByTokenInEveryRouterModeAndPlace) {
  for (v1::Router router : {v1::DENSE, v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT,
                            v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE}) {
    const bool dense = router == v1::DENSE;
    for (const std::vector<int>& layers : std::vector<std::vector<int>>{{}, {0}, {1}}) {
      if (dense && !layers.empty()) continue;
      const auto model = SharpModel(
          dense ? SmallModelConfig(1) : SmallModelConfig(3, router, layers), 5 + layers.size());
      for (MergeMode mode : kModes) {
        for (size_t prompt : {1, 5, 7, 8, 9, 15, 16, 17, 23}) {
          SCOPED_TRACE(testing::Message()
                       << v1::Router_Name(router) << (mode == MergeMode::kPrompt ? " prompt" : "")
                       << ", experts in " << (layers.empty() ? "all" : std::to_string(layers[0]))
                       << ", prompt of " << prompt);
          ExpectAsStepByStep(*model, mode, Tokens(prompt));
        }
      }
    }
  }
}

TEST_F(ContinuationScoresTest, EqualTokenByTokenWithUniformFirstSegmentAndOneTokenSegments) {
  for (v1::Router router : {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT}) {
    for (int32_t segment : {1, 3, 8}) {
      v1::ModelConfig config = SmallModelConfig(4, router);
      config.mutable_routing()->set_first_segment(v1::UNIFORM);
      config.mutable_routing()->set_segment_length(segment);
      const auto model = SharpModel(config, 9);
      for (size_t prompt : {1, 4, 12}) {
        SCOPED_TRACE(testing::Message() << v1::Router_Name(router) << " segments of " << segment);
        ExpectAsStepByStep(*model, MergeMode::kSegment, Tokens(prompt));
      }
    }
  }
}

// After steps, continuations follow the current sequence, not the prompt.
TEST_F(ContinuationScoresTest, EqualTokenByTokenWithGroupedQueries) {
  for (const int experts : {1, 3}) {
    for (const v1::ModelConfig& config : GroupedModelConfigs(experts)) {
      const auto model = SharpModel(config, 6);
      for (const MergeMode mode : kModes) ExpectAsStepByStep(*model, mode, Tokens(9));
    }
  }
}

TEST_F(ContinuationScoresTest, ContinueAfterSteps) {
  const auto model = SharpModel(SmallModelConfig(4), 10);
  for (MergeMode mode : kModes) {
    const std::vector<int32_t> prompt = Tokens(6), steps = Tokens(5), last = Tokens(9);
    const auto decoder = model->NewDecoder(mode);
    ASSERT_TRUE(decoder->Prefill(prompt).ok());
    for (int32_t token : steps) ASSERT_TRUE(decoder->Step(token).ok());
    std::vector<int32_t> all = steps;
    all.insert(all.end(), last.begin(), last.end());
    const std::vector<float> expected = StepByStep(*model, mode, prompt, all);
    const auto scores = decoder->ScoreContinuations(Continuations{last}).value();
    EXPECT_LT(MaxDifference(scores[0], {expected.begin() + 5, expected.end()}), 1e-4);
  }
}

TEST_F(ContinuationScoresTest, LeaveTheSequenceUnchanged) {
  for (v1::Router router : {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT,
                            v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE}) {
    const auto model = SharpModel(SmallModelConfig(4, router), 11);
    for (MergeMode mode : kModes) {
      for (size_t length : {5, 8, 14}) {
        const std::vector<int32_t> prompt = Tokens(length), steps = Tokens(kLength - length);
        const auto scoring = model->NewDecoder(mode), plain = model->NewDecoder(mode);
        ASSERT_EQ(scoring->Prefill(prompt).value(), plain->Prefill(prompt).value());
        for (size_t i = 0; i < steps.size(); ++i) {
          ASSERT_TRUE(scoring->ScoreContinuations(RandomContinuations(steps.size() - i)).ok());
          ASSERT_EQ(scoring->Step(steps[i]).value(), plain->Step(steps[i]).value()) << i;
        }
      }
    }
  }
}

// More positions than one group of the batch, and more queries than a block of attention.
TEST_F(ContinuationScoresTest, EqualTokenByTokenForManyAndLongContinuations) {
  v1::ModelConfig config = SmallModelConfig(4);
  config.set_sequence_length(700);
  const auto model = SharpModel(config, 12);
  const std::vector<int32_t> prompt = Tokens(21);
  Continuations continuations = {Tokens(600), Tokens(1), Tokens(301)};
  for (int i = 0; i < 60; ++i) continuations.push_back(Tokens(100));
  const auto decoder = model->NewDecoder(MergeMode::kSegment);
  ASSERT_TRUE(decoder->Prefill(prompt).ok());
  const auto scores = decoder->ScoreContinuations(continuations).value();
  for (size_t i : {0, 1, 2, 3, 62}) {
    EXPECT_LT(
        MaxDifference(scores[i], StepByStep(*model, MergeMode::kSegment, prompt, continuations[i])),
        2e-4)
        << i;
  }
}

TEST_F(ContinuationScoresTest, NoContinuationsGiveNoScores) {
  const auto model = SharpModel(SmallModelConfig(4), 13);
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  ASSERT_TRUE(decoder->Prefill(Tokens(3)).ok());
  EXPECT_TRUE(decoder->ScoreContinuations({}).value().empty());
}

TEST_F(ContinuationScoresTest, InvalidCallsReturnErrors) {
  const auto model = SharpModel(SmallModelConfig(4), 14);
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  EXPECT_EQ(decoder->ScoreContinuations(Continuations{{1}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(decoder->Prefill(Tokens(20)).ok());
  for (const Continuations& bad : {Continuations{{1}, {}}, Continuations{{1}, Tokens(5)},
                                   Continuations{{1}, {2, 50}}, Continuations{{1}, {-1}}}) {
    const absl::Status status = decoder->ScoreContinuations(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("continuation 1"), absl::string_view::npos) << status;
  }
  EXPECT_TRUE(decoder->ScoreContinuations(Continuations{Tokens(4)}).ok());
}

}  // namespace continuation_scores_test
}  // namespace braid
