#include "retrieval/embedding_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/base/status_matchers.h"

namespace braid {
namespace embedding_batch_test {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<size_t, size_t>> Batches(const std::vector<std::string>& texts,
                                               int64_t target_bytes, int64_t target_texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto batches = SplitIntoBatches(views, /*dimension=*/8, target_bytes, target_texts);
  EXPECT_OK(batches);
  std::vector<std::pair<size_t, size_t>> ends;
  if (!batches.ok()) return ends;
  for (const EmbeddingBatch& batch : *batches) ends.emplace_back(batch.begin, batch.end);
  return ends;
}

// Each text counts with 6 bytes more than it has.
TEST(SplitIntoBatchesTest, ABatchBeginsAtEachMultipleOfTheNumberOfTexts) {
  std::vector<std::string> texts(10, "four");
  EXPECT_THAT(Batches(texts, 1000, 4), ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 10)));
  texts[1] = std::string(80, 'x');
  EXPECT_THAT(Batches(texts, 100, 4), ElementsAre(Pair(0, 2), Pair(2, 4), Pair(4, 8), Pair(8, 10)));
}

TEST(CheckEmbeddingAnswerTest, RefusesAWrongNumberOfValuesOrTruncatedTexts) {
  v1::EmbedResponse answer;
  for (const float value : {1.0f, 0.0f, 0.0f, -1.0f}) answer.add_values(value);
  answer.set_num_truncated(2);
  EXPECT_OK(CheckEmbeddingAnswer(answer, 2, 2));
  EXPECT_FAILS(CheckEmbeddingAnswer(answer, 3, 2), absl::StatusCode::kInternal,
               "got 4 values and 2 truncated texts", "expected 6 values of 3 texts");
  EXPECT_FAILS(CheckEmbeddingAnswer(answer, 1, 4), absl::StatusCode::kInternal, "truncated");
  answer.set_num_truncated(-1);
  EXPECT_FAILS(CheckEmbeddingAnswer(answer, 2, 2), absl::StatusCode::kInternal, "truncated");
}

}  // namespace embedding_batch_test
}  // namespace braid
