#include "model/config/decoder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/random_model.h"

namespace braid {
namespace decoder_test {

constexpr int64_t kLength = 24, kVocab = 50;
constexpr v1::Router kRouters[] = {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT,
                                   v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE};
constexpr v1::Router kAllRouters[] = {v1::DENSE,
                                      v1::CAUSAL_SEGMENT,
                                      v1::PREFIX,
                                      v1::EXPERT_CHOICE_SEGMENT,
                                      v1::EXPERT_CHOICE_TOKEN,
                                      v1::TOKEN_CHOICE};

class DecoderTest : public testing::Test {
 protected:
  std::vector<int32_t> Tokens() { return RandomTokens(kLength, kVocab, &random_); }

  // Returns the logits [kVocab] after each token from the last prompt token on.
  static std::vector<std::vector<float>> Decode(LanguageModel& model, MergeMode mode,
                                                std::span<const int32_t> tokens, size_t prompt) {
    const auto decoder = model.NewDecoder(mode);
    std::vector<std::vector<float>> logits = {decoder->Prefill(tokens.first(prompt)).value()};
    for (int32_t token : tokens.subspan(prompt)) logits.push_back(decoder->Step(token).value());
    return logits;
  }

  // Returns the largest difference from the full forward pass.
  static double ErrorAgainstForward(LanguageModel& model, MergeMode mode,
                                    std::span<const int32_t> tokens, size_t prompt) {
    const std::vector<float> all = model.Logits(tokens, 1).value();
    const auto decoded = Decode(model, mode, tokens, prompt);
    double worst = 0;
    for (size_t i = 0; i < decoded.size(); ++i) {
      const auto begin = all.begin() + static_cast<int64_t>(prompt - 1 + i) * kVocab;
      const double error = MaxDifference(decoded[i], {begin, begin + kVocab});
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
    return worst;
  }

  // Layer -1 means experts in all layers.
  static v1::ModelConfig ConfigOf(v1::Router router, int layer) {
    if (router == v1::DENSE) return SmallModelConfig(1);
    return SmallModelConfig(3, router, layer < 0 ? std::vector<int>() : std::vector{layer});
  }

  void ExpectAsNewDecoders(LanguageModel& model, MergeMode mode) {
    const auto decoder = model.NewDecoder(mode);
    std::vector<int32_t> held;
    for (int round = 0; round < 12; ++round) {
      // Half of the lengths are at or next to a segment's start.
      const size_t length =
          round % 2 == 0 ? 1 + random_() % kLength : 7 + 8 * (random_() % 2) + random_() % 3;
      std::vector<int32_t> prompt = RandomTokens(length, kVocab, &random_);
      const size_t shared = std::min({held.size(), length, size_t{random_() % (kLength + 8)}});
      std::copy_n(held.begin(), shared, prompt.begin());
      const auto fresh = model.NewDecoder(mode);
      ASSERT_LT(MaxDifference(decoder->Prefill(prompt).value(), fresh->Prefill(prompt).value()),
                1e-5)
          << "round " << round << ", " << decoder->reused_tokens() << " of " << length;
      held = prompt;
      if (length < kLength) {
        const std::vector<std::vector<int32_t>> next = {
            RandomTokens(kLength - length, kVocab, &random_)};
        ASSERT_LT(MaxDifference(decoder->ScoreContinuations(next).value()[0],
                                fresh->ScoreContinuations(next).value()[0]),
                  1e-5);
      }
      for (size_t steps = random_() % (kLength - length + 1); steps > 0; --steps) {
        held.push_back(static_cast<int32_t>(random_() % kVocab));
        ASSERT_LT(
            MaxDifference(decoder->Step(held.back()).value(), fresh->Step(held.back()).value()),
            1e-5)
            << "round " << round << ", step to " << held.size();
      }
    }
  }

  // Steps until the longest sequence is full.
  void ExpectTogetherAsInTurn(LanguageModel& model, size_t count) {
    std::vector<std::unique_ptr<Decoder>> together, in_turn;
    std::vector<Decoder*> decoders;
    for (size_t i = 0; i < count; ++i) {
      const MergeMode mode = i % 2 == 0 ? MergeMode::kSegment : MergeMode::kPrompt;
      const auto prompt = RandomTokens(i < 2 ? 3 : 1 + random_() % 12, kVocab, &random_);
      together.push_back(model.NewDecoder(mode));
      in_turn.push_back(model.NewDecoder(mode));
      decoders.push_back(together.back().get());
      ASSERT_EQ(together[i]->Prefill(prompt).value(), in_turn[i]->Prefill(prompt).value());
    }
    for (int step = 0; step < 12; ++step) {
      const std::vector<int32_t> tokens = RandomTokens(count, kVocab, &random_);
      const auto logits = model.StepTogether(decoders, tokens).value();
      for (size_t i = 0; i < count; ++i) {
        ASSERT_LT(MaxDifference(logits[i], in_turn[i]->Step(tokens[i]).value()), 3e-5)
            << "step " << step << ", sequence " << i << " of " << count;
      }
    }
  }

  std::mt19937 random_{21};
};

TEST_F(DecoderTest, SegmentModeEqualsForwardOncePromptCoversTheFirstSegment) {
  for (v1::Router router : kRouters) {
    for (v1::FirstSegment first : {v1::SELF_STOP_GRADIENT, v1::UNIFORM}) {
      v1::ModelConfig config = SmallModelConfig(4, router);
      config.mutable_routing()->set_first_segment(first);
      const auto model = SharpModel(config, 5);
      for (size_t prompt : {8, 9, 15, 16, 17, 24}) {
        EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kSegment, Tokens(), prompt), 1e-4)
            << v1::Router_Name(router) << " prompt " << prompt;
      }
    }
  }
}

TEST_F(DecoderTest, SegmentModeWithUniformFirstSegmentEqualsForwardForAnyPrompt) {
  for (v1::Router router : kRouters) {
    v1::ModelConfig config = SmallModelConfig(4, router);
    config.mutable_routing()->set_first_segment(v1::UNIFORM);
    const auto model = SharpModel(config, 6);
    for (size_t prompt : {1, 3, 7}) {
      EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kSegment, Tokens(), prompt), 1e-4)
          << v1::Router_Name(router);
    }
  }
}

TEST_F(DecoderTest, MixedLayersEqualForward) {
  for (v1::Router router : kRouters) {
    for (int layer : {0, 1}) {
      const auto model = SharpModel(SmallModelConfig(3, router, {layer}), 12);
      EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kSegment, Tokens(), 10), 1e-4)
          << v1::Router_Name(router) << " layer " << layer;
    }
  }
}

TEST_F(DecoderTest, GroupedQueryAttentionEqualsForward) {
  for (const int experts : {1, 3}) {
    for (const v1::ModelConfig& config : GroupedModelConfigs(experts)) {
      const auto model = SharpModel(config, 14);
      EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kSegment, Tokens(), 10), 1e-4)
          << config.ShortDebugString();
      ExpectAsNewDecoders(*model, MergeMode::kPrompt);
      ExpectTogetherAsInTurn(*model, 3);
    }
  }
}

TEST_F(DecoderTest, SoftCappedLogitsEqualForward) {
  v1::ModelConfig config = SmallModelConfig(1);
  config.set_logit_soft_cap(0.25);
  const auto model = SharpModel(config, 5), plain = SharpModel(SmallModelConfig(1), 5);
  const std::vector<int32_t> tokens = Tokens();
  EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kSegment, tokens, 9), 1e-4);
  const std::vector<float> capped = *model->Logits(tokens, 1), open = *plain->Logits(tokens, 1);
  for (size_t i = 0; i < open.size(); ++i) {
    ASSERT_NEAR(capped[i], 0.25 * std::tanh(open[i] / 0.25), 1e-5) << i;
  }
  const std::vector<int32_t> answer = {7, 3, 9};
  const auto decoder = model->NewDecoder(MergeMode::kSegment);
  double sum = 0;
  for (size_t i = 0; i < answer.size(); ++i) {
    std::vector<int32_t> prefix = tokens;
    prefix.resize(9);
    prefix.insert(prefix.end(), answer.begin(), answer.begin() + static_cast<int64_t>(i));
    const std::vector<float> logits = *decoder->Prefill(prefix);
    double total = 0;
    for (float logit : logits) total += std::exp(logit);
    sum += logits[answer[i]] - std::log(total);
  }
  ASSERT_TRUE(decoder->Prefill(std::span(tokens).first(9)).ok());
  const auto scores = *decoder->ScoreContinuations(std::vector<std::vector<int32_t>>{answer});
  EXPECT_NEAR(std::accumulate(scores[0].begin(), scores[0].end(), 0.0), sum, 1e-4);
}

TEST_F(DecoderTest, SegmentsOfOneTokenEqualForward) {
  for (v1::Router router : kRouters) {
    v1::ModelConfig config = SmallModelConfig(4, router);
    config.mutable_routing()->set_segment_length(1);
    const auto model = SharpModel(config, 13);
    EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kSegment, Tokens(), 3), 1e-4)
        << v1::Router_Name(router);
  }
}

// No decision is made for a prompt, so there is none to keep.
TEST_F(DecoderTest, TokenChoiceIsTheSameInBothModes) {
  const auto model = SharpModel(SmallModelConfig(4, v1::EXPERT_CHOICE_TOKEN), 14);
  for (size_t prompt : {1, 6, 24}) {
    EXPECT_LT(ErrorAgainstForward(*model, MergeMode::kPrompt, Tokens(), prompt), 1e-4);
  }
}

TEST_F(DecoderTest, DenseModelEqualsForwardInBothModes) {
  const auto model = SharpModel(SmallModelConfig(1), 7);
  for (MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
    EXPECT_LT(ErrorAgainstForward(*model, mode, Tokens(), 1), 1e-4);
    EXPECT_LT(ErrorAgainstForward(*model, mode, Tokens(), 11), 1e-4);
  }
}

// A prompt within the first segment routes on itself, in both modes.
TEST_F(DecoderTest, ShortPromptRoutesOnItself) {
  for (v1::Router router : kRouters) {
    const auto model = SharpModel(SmallModelConfig(4, router), 8);
    const std::vector<int32_t> tokens = Tokens();
    for (size_t length : {1, 5, 8}) {
      const std::span<const int32_t> prompt(tokens.data(), length);
      const std::vector<float> forward = model->Logits(prompt, 1).value();
      const std::vector<float> last(forward.end() - kVocab, forward.end());
      for (MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
        const auto decoder = model->NewDecoder(mode);
        EXPECT_LT(MaxDifference(decoder->Prefill(prompt).value(), last), 1e-4) << length;
      }
    }
  }
}

// After prompt routing the model is dense, so it does not matter how tokens are grouped.
TEST_F(DecoderTest, PromptModeKeepsItsDecision) {
  const auto model = SharpModel(SmallModelConfig(4), 9);
  const std::vector<int32_t> a = Tokens();
  const auto decoded = Decode(*model, MergeMode::kPrompt, a, 6);
  const auto by_segment = Decode(*model, MergeMode::kSegment, a, 6);
  // With one decision the logits agree until the second segment begins, and not after it.
  EXPECT_LT(MaxDifference(decoded[2], by_segment[2]), 1e-5);
  EXPECT_GT(MaxDifference(decoded[3], by_segment[3]), 1e-5);
}

TEST_F(DecoderTest, PrefillStartsANewSequence) {
  const auto model = SharpModel(SmallModelConfig(4), 10);
  const std::vector<int32_t> a = Tokens(), b = Tokens();
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  const std::vector<float> first = decoder->Prefill(a).value();
  ASSERT_TRUE(decoder->Prefill(b).ok());
  EXPECT_EQ(decoder->Prefill(a).value(), first);
}

// Prompts share random prefixes with the decoder's current sequence, including its own steps and
// the same prompt again.
TEST_F(DecoderTest, ReusedPrefixesGiveTheSameLogitsAsNewDecoders) {
  for (v1::Router router : kAllRouters) {
    for (v1::FirstSegment first : {v1::SELF_STOP_GRADIENT, v1::UNIFORM}) {
      for (int layer : {-1, 0, 1}) {
        v1::ModelConfig config = ConfigOf(router, layer);
        config.mutable_routing()->set_first_segment(first);
        const auto model = SharpModel(config, 15);
        for (MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
          SCOPED_TRACE(testing::Message() << v1::Router_Name(router) << " layer " << layer);
          ExpectAsNewDecoders(*model, mode);
        }
      }
    }
  }
}

// A fork and its origin continue with different tokens in turn, across segments; each equals a
// decoder of its own. The origin is deleted before the fork's last steps.
TEST_F(DecoderTest, ForksContinueOnTheirOwn) {
  for (v1::Router router : kAllRouters) {
    for (MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
      SCOPED_TRACE(testing::Message() << v1::Router_Name(router));
      const auto model = SharpModel(ConfigOf(router, -1), 17);
      const std::vector<int32_t> a = Tokens(), b = Tokens();
      const std::span<const int32_t> prompt = std::span(a).first(5);
      auto origin = model->NewDecoder(mode);
      EXPECT_EQ(origin->Fork().status().code(), absl::StatusCode::kFailedPrecondition);
      const auto expected_a = model->NewDecoder(mode), expected_b = model->NewDecoder(mode);
      for (Decoder* decoder : {origin.get(), expected_a.get(), expected_b.get()}) {
        ASSERT_TRUE(decoder->Prefill(prompt).ok());
        ASSERT_TRUE(decoder->Step(a[5]).ok());
      }
      const std::unique_ptr<Decoder> fork = origin->Fork().value();
      for (size_t i = 6; i < kLength; ++i) {
        if (i < 20) {
          EXPECT_EQ(origin->Step(a[i]).value(), expected_a->Step(a[i]).value()) << i;
        } else {
          origin.reset();
        }
        EXPECT_EQ(fork->Step(b[i]).value(), expected_b->Step(b[i]).value()) << i;
      }
    }
  }
}

TEST_F(DecoderTest, ReusesTheLongestPrefixThatRoutingPermits) {
  const std::vector<int32_t> a = Tokens();
  std::vector<int32_t> b = a;
  b[13] = (b[13] + 1) % kVocab;
  const auto reused = [&](v1::Router router, MergeMode mode, size_t before, size_t after) {
    const auto model = SharpModel(ConfigOf(router, -1), 16);
    const auto decoder = model->NewDecoder(mode);
    EXPECT_TRUE(decoder->Prefill(std::span(a).first(before)).ok());
    EXPECT_EQ(decoder->reused_tokens(), 0);
    EXPECT_TRUE(decoder->Prefill(std::span(b).first(after)).ok());
    return decoder->reused_tokens();
  };
  for (v1::Router router : kAllRouters) {
    const bool segments =
        router != v1::DENSE && router != v1::EXPERT_CHOICE_TOKEN && router != v1::TOKEN_CHOICE;
    // The prompts differ from token 13 on; then the same prompt again.
    EXPECT_EQ(reused(router, MergeMode::kSegment, 24, 24), 13);
    EXPECT_EQ(reused(router, MergeMode::kPrompt, 24, 24), segments ? 0 : 13);
    EXPECT_EQ(reused(router, MergeMode::kPrompt, 10, 10), 9);
    // The first prompt covered only a part of the first segment.
    EXPECT_EQ(reused(router, MergeMode::kSegment, 5, 24), segments ? 0 : 5);
    EXPECT_EQ(reused(router, MergeMode::kSegment, 8, 24), 8);
    EXPECT_EQ(reused(router, MergeMode::kSegment, 24, 7), segments ? 0 : 6);
  }
}

// Sequences of different lengths and modes, before and after segment starts.
TEST_F(DecoderTest, StepTogetherEqualsStepsInTurn) {
  for (v1::Router router : kAllRouters) {
    for (int layer : {-1, 1}) {
      const auto model = SharpModel(ConfigOf(router, layer), 17);
      for (size_t count : {1, 2, 5}) {
        SCOPED_TRACE(testing::Message() << v1::Router_Name(router) << " layer " << layer);
        ExpectTogetherAsInTurn(*model, count);
      }
    }
  }
}

TEST_F(DecoderTest, StepTogetherReturnsTheErrorsOfStep) {
  const auto model = SharpModel(SmallModelConfig(4), 18);
  const auto a = model->NewDecoder(MergeMode::kSegment), b = model->NewDecoder(MergeMode::kPrompt);
  const std::vector<Decoder*> both = {a.get(), b.get()};
  const auto code = [&](std::vector<int32_t> tokens) {
    return model->StepTogether(both, tokens).status().code();
  };
  EXPECT_TRUE(model->StepTogether({}, {}).value().empty());
  ASSERT_TRUE(a->Prefill(Tokens()).ok());
  EXPECT_EQ(code({1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1, 1}), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(a->Prefill(std::vector<int32_t>{1, 2}).ok());
  EXPECT_EQ(code({1, 1}), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(b->Prefill(std::vector<int32_t>{1, 2}).ok());
  EXPECT_EQ(code({1, 50}), absl::StatusCode::kInvalidArgument);
  // The failed calls have not changed any sequence.
  const auto fresh = model->NewDecoder(MergeMode::kSegment);
  ASSERT_TRUE(fresh->Prefill(std::vector<int32_t>{1, 2}).ok());
  EXPECT_EQ(a->Step(3).value(), fresh->Step(3).value());
}

TEST_F(DecoderTest, InvalidCallsReturnErrors) {
  const auto model = SharpModel(SmallModelConfig(4), 11);
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  EXPECT_EQ(decoder->Step(1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(decoder->Prefill({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->Prefill(std::vector<int32_t>{1, 50}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->Prefill(std::vector<int32_t>(kLength + 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(decoder->Prefill(Tokens()).ok());
  EXPECT_EQ(decoder->Step(1).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace decoder_test
}  // namespace braid
