#include "evaluation/score_summary.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/model_config.h"

namespace braid {
namespace score_summary_test {

constexpr double kLn2 = std::numbers::ln2;

v1::ModelConfig Dense() { return ResolveModelConfig({}).value(); }

UnitScore Unit(int64_t tokens, int64_t bytes, double nats, int64_t after_tokens,
               int64_t after_bytes, double after_nats) {
  return {
      .all = {.tokens = tokens, .bytes = bytes, .nats = nats},
      .after_first_segment = {.tokens = after_tokens, .bytes = after_bytes, .nats = after_nats}};
}

DomainScore Domain(const std::string& name, std::vector<UnitScore> windows,
                   std::vector<UnitScore> documents = {}) {
  return {.name = name,
          .windows = std::move(windows),
          .documents = std::move(documents),
          .routing = {}};
}

TEST(ScoreSummaryTest, FiguresAreRatiosOfSums) {
  const TextScore score = {Domain("a", {Unit(10, 40, 20, 6, 24, 9), Unit(10, 30, 10, 6, 20, 3)}),
                           Domain("b", {Unit(4, 8, 8, 0, 0, 0)})};
  const v1::Evaluation evaluation = SummarizeScore(score, Dense(), {});
  ASSERT_EQ(evaluation.domains_size(), 2);
  const v1::DomainEvaluation& a = evaluation.domains(0);
  EXPECT_EQ(a.num_windows(), 2);
  EXPECT_EQ(a.num_tokens(), 20);
  EXPECT_EQ(a.num_bytes(), 70);
  EXPECT_DOUBLE_EQ(a.loss(), 1.5);
  EXPECT_DOUBLE_EQ(a.perplexity(), std::exp(1.5));
  EXPECT_DOUBLE_EQ(a.bits_per_byte(), 30 / kLn2 / 70);
  EXPECT_EQ(a.num_bytes_after_first_segment(), 44);
  EXPECT_DOUBLE_EQ(a.loss_after_first_segment(), 1);
  EXPECT_DOUBLE_EQ(a.perplexity_after_first_segment(), std::exp(1));
  EXPECT_DOUBLE_EQ(a.bits_per_byte_after_first_segment(), 12 / kLn2 / 44);
  // With two windows, the extreme resamples draw the same window twice.
  EXPECT_DOUBLE_EQ(a.perplexity_after_first_segment_interval().low(), std::exp(0.5));
  EXPECT_DOUBLE_EQ(a.perplexity_after_first_segment_interval().high(), std::exp(1.5));
  EXPECT_DOUBLE_EQ(a.perplexity_interval().low(), std::exp(1));
  EXPECT_DOUBLE_EQ(a.perplexity_interval().high(), std::exp(2));
  EXPECT_DOUBLE_EQ(a.bits_per_byte_after_first_segment_interval().high(), 9 / kLn2 / 24);
  EXPECT_DOUBLE_EQ(evaluation.total().loss(), 38.0 / 24);
  EXPECT_EQ(evaluation.total().num_windows(), 3);
  EXPECT_FALSE(evaluation.moe());
}

TEST(ScoreSummaryTest, NothingToMeasureIsZeroWithoutAnInterval) {
  const TextScore score = {Domain("short", {Unit(4, 8, 8, 0, 0, 0)}), Domain("empty", {})};
  const v1::Evaluation evaluation = SummarizeScore(score, Dense(), {});
  for (const v1::DomainEvaluation& domain : evaluation.domains()) {
    EXPECT_EQ(domain.perplexity_after_first_segment(), 0);
    EXPECT_EQ(domain.bits_per_byte_after_first_segment(), 0);
    EXPECT_FALSE(domain.has_perplexity_interval());
    EXPECT_FALSE(domain.has_perplexity_after_first_segment_interval());
    EXPECT_FALSE(domain.has_bits_per_byte_after_first_segment_interval());
  }
  EXPECT_GT(evaluation.domains(0).perplexity(), 0);
  EXPECT_EQ(evaluation.domains(1).perplexity(), 0);
}

TEST(ScoreSummaryTest, ComparesWindowByWindow) {
  const TextScore baseline = {Domain("a", {Unit(8, 40, 16, 4, 20, 8), Unit(8, 32, 16, 4, 16, 12)})};
  TextScore better = baseline;
  // 0.5 nats a token in the first window, 1 in the second.
  better[0].windows[0].after_first_segment.nats -= 2;
  better[0].windows[1].after_first_segment.nats -= 4;
  const v1::EvaluationComparison comparison = CompareScores(baseline, better, {}, {});
  EXPECT_FALSE(comparison.paired_by_document());
  ASSERT_EQ(comparison.domains_size(), 2);
  EXPECT_EQ(comparison.domains(1).domain(), "all");
  const v1::DomainDifference& a = comparison.domains(0);
  EXPECT_DOUBLE_EQ(a.loss_difference(), 6.0 / 8);
  EXPECT_NEAR(a.loss_difference_interval().low(), 0.5, 1e-12);
  EXPECT_NEAR(a.loss_difference_interval().high(), 1, 1e-12);
  EXPECT_NEAR(a.bits_per_byte_difference(), 6 / kLn2 / 36, 1e-12);
  EXPECT_NEAR(a.bits_per_byte_difference_interval().low(), 2 / kLn2 / 20, 1e-12);
  EXPECT_NEAR(a.bits_per_byte_difference_interval().high(), 4 / kLn2 / 16, 1e-12);
  EXPECT_DOUBLE_EQ(CompareScores(better, baseline, {}, {}).domains(0).loss_difference(), -0.75);
}

// Two tokenizers: as many documents, other windows and tokens.
TEST(ScoreSummaryTest, ComparesDocumentsInBitsPerByteWhereTokensDiffer) {
  const TextScore baseline = {Domain("a", {Unit(16, 72, 32, 8, 36, 20)},
                                     {Unit(8, 40, 16, 4, 20, 8), Unit(8, 32, 16, 4, 16, 12)})};
  const TextScore other = {Domain("a", {Unit(6, 40, 10, 3, 22, 6), Unit(6, 32, 10, 3, 16, 4)},
                                  {Unit(6, 40, 10, 3, 22, 6), Unit(6, 32, 10, 3, 16, 4)})};
  const Pairing pairing = {.same_windows = false, .same_tokenizer = false};
  const v1::EvaluationComparison comparison = CompareScores(baseline, other, pairing, {});
  EXPECT_TRUE(comparison.paired_by_document());
  const v1::DomainDifference& a = comparison.domains(0);
  EXPECT_FALSE(a.has_loss_difference());
  EXPECT_FALSE(a.has_loss_difference_interval());
  EXPECT_NEAR(a.bits_per_byte_difference(), (20.0 / 36 - 10.0 / 38) / kLn2, 1e-12);
  EXPECT_NEAR(a.bits_per_byte_difference_interval().low(), (8.0 / 20 - 6.0 / 22) / kLn2, 1e-12);
  EXPECT_NEAR(a.bits_per_byte_difference_interval().high(), (12.0 / 16 - 4.0 / 16) / kLn2, 1e-12);
}

TEST(ScoreSummaryTest, TextWithinFirstSegmentsHasNoDifference) {
  const TextScore some = {Domain("a", {Unit(8, 40, 16, 4, 20, 8)}, {Unit(8, 40, 16, 4, 20, 8)})};
  const TextScore none = {Domain("a", {Unit(8, 40, 16, 0, 0, 0)}, {Unit(8, 40, 16, 0, 0, 0)})};
  for (const auto& [baseline, score] : {std::pair{some, none}, {none, some}, {none, none}}) {
    const v1::DomainDifference a =
        CompareScores(baseline, score, {.same_windows = false}, {}).domains(0);
    EXPECT_FALSE(a.has_loss_difference());
    EXPECT_EQ(a.bits_per_byte_difference(), 0);
  }
}

TEST(ScoreSummaryTest, OnePairHasNoInterval) {
  const TextScore score = {Domain("a", {Unit(8, 40, 16, 4, 20, 8)})};
  const v1::DomainDifference a = CompareScores(score, score, {}, {}).domains(0);
  EXPECT_TRUE(a.has_loss_difference());
  EXPECT_FALSE(a.has_loss_difference_interval());
  EXPECT_FALSE(a.has_bits_per_byte_difference_interval());
}

}  // namespace score_summary_test
}  // namespace braid
