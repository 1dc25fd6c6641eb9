#include "model/routing/document_pools.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace braid {
namespace document_pools_test {

constexpr int64_t kSegment = 4, kPool = 3, kExperts = 7;

v1::RoutingConfig PoolConfig() {
  v1::RoutingConfig config;
  config.set_segment_length(kSegment);
  config.set_num_experts(kExperts);
  config.mutable_token()->set_document_pool(kPool);
  return config;
}

using Row = std::vector<double>;

Row Softmax(const Row& scores) {
  Row result;
  double sum = 0;
  for (const double s : scores) sum += std::exp(s);
  for (const double s : scores) result.push_back(std::exp(s) / sum);
  return result;
}

// The definition: whether position t of one sequence may choose expert e.
bool Allowed(const std::vector<Row>& scores, const std::vector<int32_t>& starts, int64_t t,
             int64_t e) {
  const int64_t begin = starts[t];
  if (t < begin + kSegment) return true;
  Row mean(kExperts);
  for (int64_t i = begin; i < begin + kSegment; ++i) {
    const Row p = Softmax(scores[i]);
    for (int64_t j = 0; j < kExperts; ++j) mean[j] += p[j] / kSegment;
  }
  return std::ranges::count_if(mean, [&](double other) { return other > mean[e]; }) < kPool;
}

class DocumentPoolsTest : public testing::Test {
 protected:
  std::vector<int32_t> RandomStarts(int64_t length) {
    std::vector<int32_t> starts(length);
    for (int64_t t = 1; t < length; ++t) {
      starts[t] = random_() % 6 == 0 ? static_cast<int32_t>(t) : starts[t - 1];
    }
    return starts;
  }
  std::vector<Row> RandomScores(int64_t length) {
    std::normal_distribution<double> normal(0, 2);
    std::vector<Row> scores(length, Row(kExperts));
    for (Row& row : scores) std::ranges::generate(row, [&] { return normal(random_); });
    return scores;
  }

  std::mt19937 random_{5};
};

at::Tensor TensorOf(const std::vector<Row>& rows) {
  std::vector<double> values;
  for (const Row& row : rows) values.insert(values.end(), row.begin(), row.end());
  return at::tensor(at::ArrayRef<double>(values), at::kDouble).view({-1, kExperts});
}

TEST_F(DocumentPoolsTest, EqualTheirDefinition) {
  constexpr int64_t kBatch = 3, kLength = 23;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<Row> all;
    std::vector<std::vector<Row>> scores;
    std::vector<std::vector<int32_t>> starts;
    std::vector<int32_t> flat;
    for (int64_t b = 0; b < kBatch; ++b) {
      scores.push_back(RandomScores(kLength));
      starts.push_back(trial == 0 ? std::vector<int32_t>(kLength) : RandomStarts(kLength));
      all.insert(all.end(), scores[b].begin(), scores[b].end());
      flat.insert(flat.end(), starts[b].begin(), starts[b].end());
    }
    const at::Tensor pooled = PooledScores(
        TensorOf(all), at::tensor(flat, at::kInt).view({kBatch, kLength}), PoolConfig());
    for (int64_t i = 0; i < kBatch * kLength; ++i) {
      const int64_t b = i / kLength, t = i % kLength;
      for (int64_t e = 0; e < kExperts; ++e) {
        const double expected = Allowed(scores[b], starts[b], t, e)
                                    ? scores[b][t][e]
                                    : -std::numeric_limits<double>::infinity();
        EXPECT_EQ(pooled[i][e].item<double>(), expected) << trial << ' ' << b << ' ' << t;
      }
    }
  }
}

// The third place goes to expert 6 by a difference that float sums do not hold.
TEST_F(DocumentPoolsTest, SumsAreComparedInDoublePrecision) {
  DocumentPools pools(PoolConfig());
  const std::vector<float> row = {0.25f, 0.5f, 0.5f, 0, 0, 0, 0.25f};
  std::vector<float> last = row;
  last[6] = std::nextafter(last[6], 1.0f);
  for (int64_t t = 0; t < kSegment; ++t) pools.Append(t == 0, t + 1 < kSegment ? row : last);
  EXPECT_THAT(pools.Append(false, row), testing::ElementsAre(0, 3, 4, 5));
}

TEST_F(DocumentPoolsTest, APoolOfAllExpertsLeavesAllOfThem) {
  v1::RoutingConfig config = PoolConfig();
  config.mutable_token()->set_document_pool(kExperts);
  const at::Tensor scores = TensorOf(RandomScores(3 * kSegment));
  const at::Tensor starts = at::zeros({1, 3 * kSegment}, at::kInt);
  EXPECT_TRUE(PooledScores(scores, starts, config).equal(scores));
}

TEST_F(DocumentPoolsTest, ALaterScoreChangesNoEarlierRow) {
  const std::vector<int32_t> starts = {0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7};
  const at::Tensor start = at::tensor(starts, at::kInt).unsqueeze(0);
  const at::Tensor scores = TensorOf(RandomScores(std::ssize(starts)));
  const at::Tensor before = PooledScores(scores, start, PoolConfig());
  for (int64_t t = 0; t < std::ssize(starts); ++t) {
    at::Tensor changed = scores.clone();
    changed[t] = changed[t].flip(0) * 3;
    const at::Tensor after = PooledScores(changed, start, PoolConfig());
    EXPECT_TRUE(after.narrow(0, 0, t).equal(before.narrow(0, 0, t))) << t;
    EXPECT_FALSE(after[t].equal(before[t])) << t;
  }
}

TEST_F(DocumentPoolsTest, TruncatingRestoresTheStateAtEveryPosition) {
  constexpr int64_t kLength = 20;
  const std::vector<int32_t> starts = RandomStarts(kLength);
  std::vector<std::vector<float>> rows;
  for (const Row& scores : RandomScores(2 * kLength)) {
    const Row p = Softmax(scores);
    rows.emplace_back(p.begin(), p.end());
  }
  const auto append = [&](int64_t t, int64_t row, DocumentPools* pools) {
    const auto absent = pools->Append(t > 0 && starts[t] != starts[t - 1], rows[row]);
    return std::vector<int32_t>(absent.begin(), absent.end());
  };
  for (int64_t cut = 1; cut < kLength; ++cut) {
    DocumentPools fresh(PoolConfig()), truncated(PoolConfig());
    for (int64_t t = 0; t < kLength; ++t) append(t, t, &truncated);
    truncated.Truncate(cut);
    for (int64_t t = 0; t < cut; ++t) append(t, t, &fresh);
    for (int64_t t = cut; t < kLength; ++t) {
      EXPECT_EQ(append(t, kLength + t, &truncated), append(t, kLength + t, &fresh)) << cut;
    }
  }
}

}  // namespace document_pools_test
}  // namespace braid
