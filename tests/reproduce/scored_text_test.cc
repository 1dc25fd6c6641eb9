#include "reproduce/scored_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace braid {
namespace scored_text_test {

v1::Evaluation EvaluationWithout(int32_t first_positions, int64_t tokens, int64_t bytes) {
  v1::Evaluation evaluation;
  evaluation.set_first_segment_length(first_positions);
  evaluation.mutable_total()->set_num_tokens_after_first_segment(tokens);
  evaluation.mutable_total()->set_num_bytes_after_first_segment(bytes);
  return evaluation;
}

v1::EvaluationResult ResultOf(const std::vector<v1::Evaluation>& evaluations) {
  v1::EvaluationResult result;
  result.mutable_evaluations()->Add(evaluations.begin(), evaluations.end());
  return result;
}

TEST(ScoredTextTest, LossesBecomeBitsPerByteOfTheScoredPositions) {
  ScoredTexts texts;
  AddScoredTexts(ResultOf({EvaluationWithout(1, 200, 500), EvaluationWithout(64, 100, 200)}),
                 &texts);
  EXPECT_DOUBLE_EQ(BitsPerByte(std::log(2), texts, 1), 0.4);
  EXPECT_DOUBLE_EQ(BitsPerByte(std::log(2), texts, 64), 0.5);
}

TEST(ScoredTextTest, ATextOfUnknownSizeHasNoBitsPerByte) {
  ScoredTexts texts;
  EXPECT_TRUE(std::isnan(BitsPerByte(1, texts, 1)));
  AddScoredTexts(ResultOf({EvaluationWithout(1, 200, 0)}), &texts);
  EXPECT_TRUE(std::isnan(BitsPerByte(1, texts, 1)));
}

}  // namespace scored_text_test
}  // namespace braid
