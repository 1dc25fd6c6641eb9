// Routing that depends on where documents begin, by the behavior of whole models.
#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/decoder.h"
#include "model/config/model_config.h"
#include "model/config/segment_starts.h"
#include "tests/model/random_model.h"

namespace braid {
namespace document_routing_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kLength = 24, kVocab = 50;
constexpr int32_t kEnd = 3;

// Segments of at most 8 tokens that begin with documents.
v1::ModelConfig ByDocument(bool reset, v1::FirstSegment first = v1::UNIFORM) {
  v1::ModelConfig config = SmallModelConfig(3);
  v1::RoutingConfig* const routing = config.mutable_routing();
  routing->set_first_segment(first);
  routing->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
  routing->set_reset_at_documents(reset);
  config.set_document_end(kEnd);
  return ResolveModelConfig(config).value();
}

class DocumentRoutingTest : public testing::Test {
 protected:
  // Random tokens with documents that end at `ends`.
  std::vector<int32_t> Tokens(const std::vector<size_t>& ends, size_t count = kLength) {
    std::vector<int32_t> tokens = RandomTokens(count, kVocab, &random_);
    std::replace(tokens.begin(), tokens.end(), kEnd, kEnd + 1);
    for (const size_t end : ends) tokens[end] = kEnd;
    return tokens;
  }

  std::mt19937 random_{43};
};

std::vector<float> Rows(const std::vector<float>& all, size_t begin, size_t end, int64_t width) {
  return {all.begin() + static_cast<int64_t>(begin) * width,
          all.begin() + static_cast<int64_t>(end) * width};
}

// The routing weights of a layer, one row of 3 per position.
std::vector<float> RoutingOf(LanguageModel& model, const std::vector<int32_t>& tokens, int layer) {
  return model.Evaluate(tokens, tokens, 1, MergeMode::kSegment, true)->routing[layer].weights;
}

TEST(SegmentStartsTest, BeginWithDocumentsAndAfterFullSegments) {
  SegmentStarts segments(ByDocument(false));
  std::vector<int32_t> tokens(20, 9);
  tokens[4] = tokens[14] = tokens[19] = kEnd;
  segments.Append(std::span(tokens).first(6));
  segments.Append(std::span(tokens).subspan(6));
  EXPECT_THAT(segments.starts(), ElementsAre(0, 5, 13, 15));
  EXPECT_EQ(segments.SegmentAt(12), 1);
  EXPECT_TRUE(segments.BeginsDocument(1));
  EXPECT_FALSE(segments.BeginsDocument(2));
  segments.Append(std::vector<int32_t>{7});
  EXPECT_THAT(segments.starts(), ElementsAre(0, 5, 13, 15, 20));
  segments.Truncate(15);  // the next token still begins a document
  EXPECT_THAT(segments.starts(), ElementsAre(0, 5, 13));
  segments.Append(std::vector<int32_t>{7});
  EXPECT_THAT(segments.starts(), ElementsAre(0, 5, 13, 15));
  EXPECT_TRUE(segments.BeginsDocument(3));
}

TEST_F(DocumentRoutingTest, AlignedDocumentsAreRoutedAsFixedSegments) {
  for (const v1::FirstSegment first : {v1::UNIFORM, v1::SELF_STOP_GRADIENT}) {
    v1::ModelConfig fixed = SmallModelConfig(3);
    fixed.mutable_routing()->set_first_segment(first);
    const auto expected = SharpModel(fixed, 1), model = SharpModel(ByDocument(false, first), 1);
    const std::vector<int32_t> tokens = Tokens({7, 15, 23});
    EXPECT_LT(MaxDifference(model->Logits(tokens, 1).value(), expected->Logits(tokens, 1).value()),
              1e-5);
    for (LanguageModel* m : {expected.get(), model.get()}) {
      ASSERT_TRUE(m->ForwardBackward(tokens, tokens, 1, 1, false).ok());
    }
    const std::span<const float> a = model->gradients(), b = expected->gradients();
    EXPECT_LT(MaxDifference({a.begin(), a.end()}, {b.begin(), b.end()}), 1e-4);
  }
}

TEST_F(DocumentRoutingTest, UnalignedDocumentsAreRoutedOtherwise) {
  v1::ModelConfig fixed = SmallModelConfig(3);
  fixed.mutable_routing()->set_first_segment(v1::UNIFORM);
  const auto expected = SharpModel(fixed, 1), model = SharpModel(ByDocument(false), 1);
  const std::vector<int32_t> tokens = Tokens({5, 13});
  EXPECT_GT(MaxDifference(model->Logits(tokens, 1).value(), expected->Logits(tokens, 1).value()),
            1e-3);
}

TEST_F(DocumentRoutingTest, LaterTokensChangeNothing) {
  for (const bool reset : {false, true}) {
    const auto model = SharpModel(ByDocument(reset), 2);
    const std::vector<int32_t> tokens = Tokens({4, 14, 15});
    const std::vector<float> before = model->Logits(tokens, 1).value();
    for (size_t at = 1; at < kLength; ++at) {
      if (tokens[at] == kEnd) continue;
      std::vector<int32_t> changed = tokens;
      changed[at] = kEnd + 2 + changed[at] % 7;
      const std::vector<float> after = model->Logits(changed, 1).value();
      EXPECT_EQ(Rows(before, 0, at, kVocab), Rows(after, 0, at, kVocab)) << at;
    }
  }
}

// The first layer's routing depends on attention within the layer, so attention is masked too.
TEST_F(DocumentRoutingTest, ResetIsolatesDocuments) {
  for (const bool reset : {false, true}) {
    v1::ModelConfig config = ByDocument(reset);
    config.set_attention_mask(v1::DOCUMENT);
    const auto model = SharpModel(ResolveModelConfig(config).value(), 3);
    const std::vector<int32_t> tokens = Tokens({9});
    std::vector<int32_t> changed = tokens;
    changed[8] = kEnd + 2 + changed[8] % 7;
    ASSERT_NE(changed, tokens);
    for (const int layer : {0, 1}) {
      const std::vector<float> before = Rows(RoutingOf(*model, tokens, layer), 10, kLength, 3);
      const std::vector<float> after = Rows(RoutingOf(*model, changed, layer), 10, kLength, 3);
      EXPECT_EQ(before == after, reset) << layer;
    }
    const std::vector<float> before = model->Logits(tokens, 1).value();
    const std::vector<float> after = model->Logits(changed, 1).value();
    EXPECT_EQ(Rows(before, 10, kLength, kVocab) == Rows(after, 10, kLength, kVocab), reset);
  }
}

TEST_F(DocumentRoutingTest, DecoderEqualsForward) {
  for (const bool reset : {false, true}) {
    const auto model = SharpModel(ByDocument(reset), 4);
    const std::vector<int32_t> tokens = Tokens({0, 4, 14, 15});
    const std::vector<float> all = model->Logits(tokens, 1).value();
    for (const size_t prompt : {1, 5, 7, 15, 23}) {
      const auto decoder = model->NewDecoder(MergeMode::kSegment);
      std::vector<float> logits = decoder->Prefill(std::span(tokens).first(prompt)).value();
      for (size_t i = prompt; i <= tokens.size(); ++i) {
        EXPECT_LT(MaxDifference(logits, Rows(all, i - 1, i, kVocab)), 5e-5) << prompt << " " << i;
        if (i < tokens.size()) logits = decoder->Step(tokens[i]).value();
      }
    }
  }
}

// Prompts that share a beginning with what the decoder holds, in which documents end elsewhere.
TEST_F(DocumentRoutingTest, ReusedPrefixesChangeNothing) {
  for (const v1::FirstSegment first : {v1::UNIFORM, v1::SELF_STOP_GRADIENT}) {
    const auto model = SharpModel(ByDocument(false, first), 5);
    const auto used = model->NewDecoder(MergeMode::kSegment);
    const std::vector<int32_t> tokens = Tokens({});
    int64_t reused = 0;
    for (int trial = 0; trial < 40; ++trial) {
      std::vector<int32_t> prompt = tokens;
      prompt.resize(12 + random_() % 12);
      for (int i = 0; i < 2; ++i) prompt[4 + random_() % (prompt.size() - 4)] = kEnd;
      const auto fresh = model->NewDecoder(MergeMode::kSegment);
      const std::vector<float> expected = fresh->Prefill(prompt).value();
      EXPECT_LT(MaxDifference(used->Prefill(prompt).value(), expected), 2e-5) << trial;
      reused += used->reused_tokens();
      EXPECT_LT(MaxDifference(used->Step(9).value(), fresh->Step(9).value()), 2e-5) << trial;
    }
    EXPECT_GT(reused, 0);
  }
}

TEST_F(DocumentRoutingTest, ContinuationsMayEndDocuments) {
  for (const bool reset : {false, true}) {
    const auto model = SharpModel(ByDocument(reset), 6);
    const std::vector<std::vector<int32_t>> continuations = {Tokens({2, 6}, 9), Tokens({}, 9),
                                                             Tokens({0}, 4), Tokens({0}, 1)};
    const std::vector<int32_t> prompt = Tokens({4}, 10);
    const auto decoder = model->NewDecoder(MergeMode::kSegment);
    ASSERT_TRUE(decoder->Prefill(prompt).ok());
    const auto scores = decoder->ScoreContinuations(continuations).value();
    for (size_t i = 0; i < continuations.size(); ++i) {
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

TEST(DocumentRoutingConfigTest, RefusesWhatCannotBe) {
  const auto error = [](const auto& change) {
    v1::ModelConfig config = SmallModelConfig(3);
    config.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
    config.set_document_end(kEnd);
    change(&config);
    return std::string(ResolveModelConfig(config).status().message());
  };
  EXPECT_EQ(error([](v1::ModelConfig*) {}), "");
  EXPECT_THAT(error([](v1::ModelConfig* c) { c->clear_document_end(); }),
              HasSubstr("model.document_end: unset"));
  EXPECT_THAT(
      error([](v1::ModelConfig* c) { c->mutable_routing()->set_router(v1::PREFIX); }),
      HasSubstr("model.routing.segment_boundaries: got DOCUMENT, but the router is PREFIX"));
  EXPECT_THAT(error([](v1::ModelConfig* c) { c->mutable_routing()->set_reset_at_documents(true); }),
              HasSubstr("model.routing.reset_at_documents: got true with first_segment SELF_STOP"));
  EXPECT_THAT(
      error([](v1::ModelConfig* c) {
        c->mutable_routing()->clear_segment_boundaries();
        c->mutable_routing()->set_reset_at_documents(true);
        c->clear_document_end();
      }),
      HasSubstr("model.routing.reset_at_documents: got true with segment_boundaries FIXED"));
}

}  // namespace document_routing_test
}  // namespace braid
