#include "model/config/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/splitmix.h"
#include "gtest/gtest.h"
#include "tests/model/random_model.h"

namespace braid {
namespace beam_search_test {

using Tokens = std::vector<int32_t>;

constexpr int32_t kEnd = 0, kWords = 4;

// A model whose logits are a hash of the whole sequence.
std::vector<float> HashedLogits(const Tokens& sequence) {
  uint64_t state = 7;
  for (const int32_t token : sequence) state = Mix64(state, static_cast<uint64_t>(token));
  std::vector<float> logits;
  for (uint64_t v = 0; v < kWords; ++v) {
    logits.push_back(static_cast<float>(3 * UnitInterval(Mix64(state, v))));
  }
  return logits;
}

class HashedDecoder final : public Decoder {
 public:
  absl::StatusOr<std::vector<float>> Prefill(std::span<const int32_t> prompt) override {
    sequence_.assign(prompt.begin(), prompt.end());
    return HashedLogits(sequence_);
  }
  absl::StatusOr<std::vector<float>> Step(int32_t token) override {
    sequence_.push_back(token);
    return HashedLogits(sequence_);
  }
  absl::StatusOr<std::vector<std::vector<float>>> ScoreContinuations(
      std::span<const std::vector<int32_t>>) override {
    return absl::UnimplementedError("not needed");
  }
  absl::StatusOr<std::unique_ptr<Decoder>> Fork() const override {
    return std::make_unique<HashedDecoder>(*this);
  }
  std::vector<ExpertMixture> Mixtures() const override { return {}; }

 private:
  Tokens sequence_;
};

double LogProbability(const Tokens& sequence, int32_t token) {
  const std::vector<float> logits = HashedLogits(sequence);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return logits[static_cast<size_t>(token)] - std::log(sum);
}

// The best text among all, by recursion; ties do not occur.
struct BestText {
  BeamOptions options;
  Tokens prompt;
  BeamText best = {{}, 0, -std::numeric_limits<double>::infinity()};

  bool Repeats(const Tokens& sequence) const {
    const auto n = static_cast<std::ptrdiff_t>(options.no_repeat_ngram);
    if (n == 0 || std::ssize(sequence) < n) return false;
    return std::search(sequence.begin(), sequence.end() - 1, sequence.end() - n, sequence.end()) !=
           sequence.end() - 1;
  }

  void Visit(const Tokens& tokens, double log_prob) {
    Tokens sequence = prompt;
    sequence.insert(sequence.end(), tokens.begin(), tokens.end());
    for (int32_t token = 0; token < kWords; ++token) {
      const double sum = log_prob + LogProbability(sequence, token);
      Tokens longer = tokens, whole = sequence;
      longer.push_back(token);
      whole.push_back(token);
      if (token != kEnd && Repeats(whole)) continue;
      if (token != kEnd && std::ssize(longer) < options.max_tokens) {
        Visit(longer, sum);
        continue;
      }
      const double score =
          sum / std::pow(static_cast<double>(longer.size()), options.length_penalty);
      if (token == kEnd) longer.pop_back();
      if (score > best.score) best = {longer, sum, score};
    }
  }
};

BeamText Search(const BeamOptions& options, const Tokens& prompt) {
  HashedDecoder decoder;
  BeamSearch search(options, decoder, prompt, decoder.Prefill(prompt).value());
  while (!search.done()) EXPECT_TRUE(search.Advance().ok());
  return search.best();
}

TEST(BeamSearchTest, EqualsExhaustiveSearchWithEnoughBeams) {
  for (int32_t seed = 0; seed < 12; ++seed) {
    for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
      for (const int ngram : {0, 1, 2}) {
        const BeamOptions options = {.num_beams = 1024,
                                     .length_penalty = penalty,
                                     .no_repeat_ngram = ngram,
                                     .ends = {kEnd},
                                     .max_tokens = 5};
        BestText expected{options, {1 + seed % 3, 1 + seed % 2, seed + 5}};
        expected.Visit({}, 0);
        const BeamText got = Search(options, expected.prompt);
        EXPECT_EQ(got.tokens, expected.best.tokens) << seed << " " << penalty << " " << ngram;
        EXPECT_NEAR(got.score, expected.best.score, 1e-9);
      }
    }
  }
}

TEST(BeamSearchTest, OneBeamIsGreedyDecoding) {
  for (int32_t seed = 0; seed < 20; ++seed) {
    Tokens sequence = {seed + 5}, text;
    while (text.size() < 8) {
      const std::vector<float> logits = HashedLogits(sequence);
      const auto token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
      if (token == kEnd) break;
      text.push_back(token);
      sequence.push_back(token);
    }
    EXPECT_EQ(Search({.ends = {kEnd}, .max_tokens = 8}, {seed + 5}).tokens, text) << seed;
  }
}

TEST(BeamSearchTest, MoreBeamsFindTextsThatAreMoreLikely) {
  double narrow = 0, wide = 0;
  for (int32_t seed = 0; seed < 20; ++seed) {
    BeamOptions options = {.length_penalty = 0, .ends = {kEnd}, .max_tokens = 6};
    narrow += Search(options, {seed + 5}).log_prob;
    options.num_beams = 4;
    wide += Search(options, {seed + 5}).log_prob;
  }
  EXPECT_GT(wide, narrow + 1);
}

TEST(BeamSearchTest, ATextEndsWhereItIsComplete) {
  BeamOptions options = {.num_beams = 3, .ends = {}, .max_tokens = 6};
  options.is_complete = [](std::span<const int32_t> text) { return text.back() == 2; };
  const Tokens text = Search(options, {9}).tokens;
  const auto found = std::ranges::find(text, 2);
  EXPECT_TRUE(found == text.end() ? text.size() == 6 : found == text.end() - 1);
}

// Without a token that ends the text, a ban on repeats can leave no token.
TEST(BeamSearchTest, EndsWhenEveryTokenWouldRepeat) {
  const BeamOptions options = {.num_beams = 2, .no_repeat_ngram = 1, .ends = {}, .max_tokens = 20};
  Tokens text = Search(options, {9}).tokens;
  std::ranges::sort(text);
  EXPECT_EQ(text, (Tokens{0, 1, 2, 3}));
}

TEST(BeamSearchTest, LogitsThatAreNotFiniteAreErrors) {
  HashedDecoder decoder;
  BeamSearch search({.num_beams = 2, .ends = {}}, decoder, Tokens{1}, {NAN, 0, 0, 0});
  EXPECT_EQ(search.Advance().code(), absl::StatusCode::kDataLoss);
}

// A real model: one by one and batched, the text is the same.
TEST(BeamSearchTest, BatchedStepsFindTheSameText) {
  for (const v1::Router router : {v1::DENSE, v1::CAUSAL_SEGMENT, v1::TOKEN_CHOICE}) {
    const auto model =
        SharpModel(router == v1::DENSE ? SmallModelConfig(1) : SmallModelConfig(3, router), 3);
    for (const MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
      const Tokens prompt = {4, 8, 15, 16, 23};
      const auto decoder = model->NewDecoder(mode);
      const std::vector<float> logits = decoder->Prefill(prompt).value();
      BeamOptions options = {.num_beams = 4, .ends = {2}, .max_tokens = 15};
      BeamSearch one_by_one(options, *decoder, prompt, logits);
      options.step = [&](std::span<Decoder* const> decoders, std::span<const int32_t> tokens) {
        return model->StepTogether(decoders, tokens);
      };
      BeamSearch batched(options, *decoder, prompt, logits);
      while (!one_by_one.done()) ASSERT_TRUE(one_by_one.Advance().ok());
      while (!batched.done()) ASSERT_TRUE(batched.Advance().ok());
      EXPECT_EQ(batched.best().tokens, one_by_one.best().tokens) << v1::Router_Name(router);
      EXPECT_NEAR(batched.best().log_prob, one_by_one.best().log_prob, 1e-3);
    }
  }
}

}  // namespace beam_search_test
}  // namespace braid
