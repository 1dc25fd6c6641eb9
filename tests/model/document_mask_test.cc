// The attention mask DOCUMENT, by the behavior of whole models.
#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/decoder.h"
#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace document_mask_test {

constexpr int64_t kLength = 24, kVocab = 50;
constexpr int32_t kEnd = 3;

v1::ModelConfig Masked(v1::ModelConfig config) {
  config.set_attention_mask(v1::DOCUMENT);
  config.set_document_end(kEnd);
  return ResolveModelConfig(config).value();
}

class DocumentMaskTest : public testing::Test {
 protected:
  // Random tokens; documents end at about every fifth.
  std::vector<int32_t> Tokens(size_t count = kLength) {
    std::vector<int32_t> tokens = RandomTokens(count, kVocab, &random_);
    for (int32_t& token : tokens) {
      if (random_() % 5 == 0) token = kEnd;
    }
    return tokens;
  }

  std::mt19937 random_{41};
};

std::vector<float> Rows(const std::vector<float>& logits, size_t begin, size_t end) {
  return {logits.begin() + static_cast<int64_t>(begin) * kVocab,
          logits.begin() + static_cast<int64_t>(end) * kVocab};
}

TEST_F(DocumentMaskTest, OtherDocumentsChangeNoBit) {
  const auto model = SharpModel(Masked(SmallModelConfig(1)), 1);
  const auto open = SharpModel(SmallModelConfig(1), 1);
  std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random_);
  std::replace(tokens.begin(), tokens.end(), kEnd, kEnd + 1);
  tokens[6] = tokens[15] = kEnd;  // documents [0, 7), [7, 16), [16, 24)
  std::vector<int32_t> changed = tokens;
  changed[9] = kEnd + 2 + changed[9] % 7;
  ASSERT_NE(tokens, changed);
  const std::vector<float> before = model->Logits(tokens, 1).value();
  const std::vector<float> after = model->Logits(changed, 1).value();
  EXPECT_EQ(Rows(before, 0, 9), Rows(after, 0, 9)) << "causality";
  EXPECT_NE(Rows(before, 9, 16), Rows(after, 9, 16)) << "the same document";
  EXPECT_EQ(Rows(before, 16, 24), Rows(after, 16, 24)) << "the document after";
  EXPECT_NE(Rows(open->Logits(tokens, 1).value(), 16, 24),
            Rows(open->Logits(changed, 1).value(), 16, 24));
}

// The second document is the third segment.
TEST_F(DocumentMaskTest, RoutersStillSeeTheDocumentBefore) {
  std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random_);
  std::replace(tokens.begin(), tokens.end(), kEnd, kEnd + 1);
  tokens[15] = kEnd;
  std::vector<int32_t> changed = tokens;
  changed[14] = kEnd + 2 + changed[14] % 7;
  ASSERT_NE(tokens, changed);
  for (const int experts : {1, 3}) {
    const auto model = SharpModel(Masked(SmallModelConfig(experts)), 7);
    EXPECT_EQ(Rows(model->Logits(tokens, 1).value(), 16, 24) ==
                  Rows(model->Logits(changed, 1).value(), 16, 24),
              experts == 1);
    const auto before = model->Evaluate(tokens, tokens, 1, MergeMode::kSegment, true)->routing;
    const auto after = model->Evaluate(changed, tokens, 1, MergeMode::kSegment, true)->routing;
    ASSERT_EQ(before.size(), experts == 1 ? 0u : 2u);
    for (size_t i = 0; i < before.size(); ++i) {
      const std::vector<float>&b = before[i].weights, &a = after[i].weights;
      ASSERT_EQ(b.size(), 9u);
      EXPECT_TRUE(std::equal(b.begin(), b.begin() + 6, a.begin()));
      EXPECT_FALSE(std::equal(b.begin() + 6, b.end(), a.begin() + 6));
    }
  }
}

TEST_F(DocumentMaskTest, DocumentsAreAsWithoutTheOthers) {
  const auto model = SharpModel(Masked(SmallModelConfig(1)), 2);
  for (int trial = 0; trial < 10; ++trial) {
    const std::vector<int32_t> tokens = Tokens();
    const std::vector<float> together = model->Logits(tokens, 1).value();
    for (size_t begin = 0; begin < tokens.size();) {
      const auto end_token = std::find(tokens.begin() + begin, tokens.end(), kEnd);
      const size_t end = std::min<size_t>(end_token - tokens.begin() + 1, tokens.size());
      const std::span<const int32_t> document = std::span(tokens).subspan(begin, end - begin);
      EXPECT_LT(MaxDifference(Rows(together, begin, end), model->Logits(document, 1).value()),
                2e-5);
      begin = end;
    }
  }
}

// A model must compute for a packed example what it computes for the example alone, as in decoding.
TEST_F(DocumentMaskTest, DocumentsAlsoEndWithinPackedExamples) {
  const auto model = SharpModel(Masked(SmallModelConfig(1)), 6);
  std::vector<int32_t> tokens = RandomTokens(kLength, kVocab, &random_), first;
  std::replace(tokens.begin(), tokens.end(), kEnd, kEnd + 1);
  for (const size_t at : {0, 4, 9, 14, 18}) tokens[at] = kEnd;
  const std::vector<int32_t> targets = RandomTokens(kLength, kVocab, &random_);
  const std::vector<std::pair<int, int>> examples = {{0, 9}, {9, 14}, {14, 24}};
  for (const auto& [begin, end] : examples) first.insert(first.end(), end - begin, begin);
  const auto packed =
      model->Evaluate(tokens, targets, 1, MergeMode::kSegment, false, first)->token_loss;
  double sum = 0;
  for (const auto& [begin, end] : examples) {
    const auto part = [begin = begin, end = end](const std::vector<int32_t>& all) {
      return std::span(all).subspan(begin, end - begin);
    };
    const auto alone =
        model->Evaluate(part(tokens), part(targets), 1, MergeMode::kSegment, false)->token_loss;
    for (int t = begin; t < end; ++t) {
      EXPECT_NEAR(packed[t], alone[t - begin], 2e-5) << t;
      sum += packed[t];
    }
  }
  const auto trained =
      model->ForwardBackward(tokens, targets, 1, 1, false, nullptr, {.first_visible = first});
  EXPECT_NEAR(trained->loss_sum, sum, 1e-3);
}

TEST_F(DocumentMaskTest, DecoderEqualsForward) {
  for (const int experts : {1, 3}) {
    v1::ModelConfig config = SmallModelConfig(experts);
    config.mutable_routing()->set_first_segment(v1::UNIFORM);
    const auto model = SharpModel(Masked(config), 3);
    for (const size_t prompt : {1, 7, 12, 23}) {
      const std::vector<int32_t> tokens = Tokens();
      const std::vector<float> all = model->Logits(tokens, 1).value();
      const auto decoder = model->NewDecoder(MergeMode::kSegment);
      std::vector<float> logits = decoder->Prefill(std::span(tokens).first(prompt)).value();
      for (size_t i = prompt; i <= tokens.size(); ++i) {
        EXPECT_LT(MaxDifference(logits, Rows(all, i - 1, i)), 5e-5) << prompt << " " << i;
        if (i < tokens.size()) logits = decoder->Step(tokens[i]).value();
      }
    }
  }
}

TEST_F(DocumentMaskTest, SequencesTogetherAreAsInTurn) {
  const auto model = SharpModel(Masked(SmallModelConfig(1)), 4);
  std::vector<std::unique_ptr<Decoder>> together, in_turn;
  std::vector<Decoder*> decoders;
  for (int i = 0; i < 3; ++i) {
    const std::vector<int32_t> prompt = Tokens(2 + 3 * i);
    together.push_back(model->NewDecoder(MergeMode::kSegment));
    in_turn.push_back(model->NewDecoder(MergeMode::kSegment));
    ASSERT_TRUE(together.back()->Prefill(prompt).ok());
    ASSERT_TRUE(in_turn.back()->Prefill(prompt).ok());
    decoders.push_back(together.back().get());
  }
  for (int step = 0; step < 12; ++step) {
    const std::vector<int32_t> tokens = Tokens(3);
    const auto rows = model->StepTogether(decoders, tokens).value();
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_LT(MaxDifference(rows[i], in_turn[i]->Step(tokens[i]).value()), 2e-5);
    }
  }
}

TEST_F(DocumentMaskTest, ContinuationsMayEndDocuments) {
  for (const int experts : {1, 3}) {
    const auto model = SharpModel(Masked(SmallModelConfig(experts)), 5);
    for (const size_t prompt_length : {1, 6, 15}) {
      std::vector<int32_t> prompt = Tokens(prompt_length);
      if (prompt_length == 6) prompt.back() = kEnd;
      const std::vector<std::vector<int32_t>> continuations = {Tokens(9), Tokens(4), Tokens(1)};
      const auto decoder = model->NewDecoder(MergeMode::kSegment);
      ASSERT_TRUE(decoder->Prefill(prompt).ok());
      const auto scores = decoder->ScoreContinuations(continuations).value();
      for (size_t i = 0; i < continuations.size(); ++i) {
        // One token at a time: the score of a token is that of a continuation of one token.
        const auto single = model->NewDecoder(MergeMode::kSegment);
        ASSERT_TRUE(single->Prefill(prompt).ok());
        for (size_t t = 0; t < continuations[i].size(); ++t) {
          const std::vector<std::vector<int32_t>> next = {{continuations[i][t]}};
          EXPECT_NEAR(scores[i][t], single->ScoreContinuations(next).value()[0][0], 1e-4);
          ASSERT_TRUE(single->Step(continuations[i][t]).ok());
        }
      }
    }
  }
}

TEST_F(DocumentMaskTest, NeedsTheTokenThatEndsADocument) {
  v1::ModelConfig config = SmallModelConfig(1);
  config.set_attention_mask(v1::DOCUMENT);
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveModelConfig(config).status()));
  config.set_document_end(kVocab);
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveModelConfig(config).status()));
  config.set_document_end(kVocab - 1);
  EXPECT_TRUE(ResolveModelConfig(config).ok());
  config.set_attention_mask(v1::OPEN);
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveModelConfig(config).status()));
  config.clear_document_end();
  EXPECT_EQ(ResolveModelConfig(config)->DebugString(), SmallModelConfig(1).DebugString());
}

}  // namespace document_mask_test
}  // namespace braid
