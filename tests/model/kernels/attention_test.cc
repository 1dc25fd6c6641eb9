#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/rotary_frequencies.h"
#include "model/kernels/branch_attention.h"
#include "model/kernels/causal_attention.h"
#include "tests/model/reference_transformer.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace attention_test {

constexpr double kTheta = 10000;

// Multi-head, grouped-query and multi-query attention.
constexpr AttentionHeads kHeads[] = {{3, 3, 4}, {4, 2, 6}, {8, 2, 4}, {3, 1, 8}};

AttentionTables TablesOf(int64_t length, const AttentionHeads& heads,
                         const at::TensorOptions& options) {
  return MakeAttentionTables(length, heads, RotaryFrequencies(heads.width, kTheta, {}), options);
}

at::Tensor Reference(const at::Tensor& qkv, const AttentionHeads& heads) {
  return ReferenceAttention(qkv, heads.query, heads.key_value, {kTheta});
}

class CausalAttentionTest : public testing::TestWithParam<int64_t> {};

TEST_P(CausalAttentionTest, EqualsPlainAttentionForwardAndBackward) {
  at::manual_seed(5);
  const int64_t length = GetParam();
  for (const AttentionHeads& heads : kHeads) {
    if (length > 1000 && heads.query > 4) continue;
    const at::Tensor qkv = RandomLeaf({2, length, heads.qkv_width()});
    const at::Tensor upstream = at::randn({2, length, heads.query_width()}, at::kDouble);
    const AttentionTables tables = TablesOf(length + 5, heads, at::TensorOptions(at::kDouble));
    const auto got =
        GradientsOf([&] { return (CausalAttention(qkv, tables) * upstream).sum(); }, {qkv});
    const auto expected =
        GradientsOf([&] { return (Reference(qkv, heads) * upstream).sum(); }, {qkv});
    EXPECT_LT(MaxDifference(CausalAttention(qkv, tables), Reference(qkv, heads)), 1e-10);
    EXPECT_LT(MaxDifference(got[0], expected[0]), 1e-10) << heads.query << "/" << heads.key_value;
  }
}

// Lengths below one block, exactly one, slightly more, and several; the last saves no
// probabilities.
INSTANTIATE_TEST_SUITE_P(Lengths, CausalAttentionTest, testing::Values(1, 7, 128, 129, 300, 1250));

// Compares the single-precision kernel with the plain path in double precision.
TEST_P(CausalAttentionTest, SinglePrecisionEqualsDouble) {
  at::manual_seed(9);
  const int64_t length = GetParam();
  for (const AttentionHeads& heads : {AttentionHeads{3, 3, 24}, AttentionHeads{6, 2, 24}}) {
    const at::Tensor qkv = RandomLeaf({2, length, heads.qkv_width()});
    const at::Tensor single = qkv.detach().to(at::kFloat).requires_grad_();
    const at::Tensor upstream = at::randn({2, length, heads.query_width()}, at::kDouble);
    const auto attend = [&](const at::Tensor& x) {
      return CausalAttention(x, TablesOf(length + 5, heads, x.options()));
    };
    EXPECT_LT(MaxDifference(attend(single).to(at::kDouble), attend(qkv)), 1e-5);
    const auto got = GradientsOf([&] { return (attend(single) * upstream).sum(); }, {single});
    const auto expected = GradientsOf([&] { return (attend(qkv) * upstream).sum(); }, {qkv});
    EXPECT_LT(MaxDifference(got[0].to(at::kDouble), expected[0]), 1e-4) << heads.key_value;
  }
}

// Documents of random lengths: the first visible positions [B, L] of every token.
at::Tensor RandomDocuments(int64_t batch, int64_t length, double mean) {
  const at::Tensor first = at::zeros({batch, length}, at::kInt);
  const at::Tensor starts = at::rand({batch, length}, at::kDouble).lt(1.0 / mean);
  auto first_at = first.accessor<int32_t, 2>();
  const auto start_at = starts.accessor<bool, 2>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 1; t < length; ++t) {
      first_at[b][t] = start_at[b][t] ? static_cast<int32_t>(t) : first_at[b][t - 1];
    }
  }
  return first;
}

// The attention of each document alone; scores depend on distances only.
at::Tensor DocumentByDocument(const at::Tensor& qkv, const AttentionHeads& heads,
                              const at::Tensor& first) {
  const auto first_of = first.accessor<int32_t, 2>();
  std::vector<at::Tensor> sequences;
  for (int64_t b = 0; b < qkv.size(0); ++b) {
    std::vector<at::Tensor> documents;
    for (int64_t begin = 0, end; begin < qkv.size(1); begin = end) {
      for (end = begin + 1; end < qkv.size(1) && first_of[b][end] <= begin;) ++end;
      documents.push_back(Reference(qkv.narrow(0, b, 1).narrow(1, begin, end - begin), heads));
    }
    sequences.push_back(at::cat(documents, 1));
  }
  return at::cat(sequences);
}

TEST_P(CausalAttentionTest, DocumentsAttendToThemselves) {
  at::manual_seed(15);
  const int64_t length = GetParam();
  for (const AttentionHeads& heads : {AttentionHeads{3, 3, 8}, AttentionHeads{4, 2, 8}}) {
    for (const double mean : {3, 90}) {
      if (length > 1000 && mean < 10) continue;
      const at::Tensor first = RandomDocuments(2, length, mean);
      const at::Tensor qkv = RandomLeaf({2, length, heads.qkv_width()});
      const at::Tensor single = qkv.detach().to(at::kFloat).requires_grad_();
      const at::Tensor upstream = at::randn({2, length, heads.query_width()}, at::kDouble);
      const auto attend = [&](const at::Tensor& x) {
        return CausalAttention(x, TablesOf(length, heads, x.options()), first);
      };
      const auto expected = GradientsOf(
          [&] { return (DocumentByDocument(qkv, heads, first) * upstream).sum(); }, {qkv});
      const auto doubles = GradientsOf([&] { return (attend(qkv) * upstream).sum(); }, {qkv});
      const auto singles = GradientsOf([&] { return (attend(single) * upstream).sum(); }, {single});
      EXPECT_LT(MaxDifference(attend(qkv), DocumentByDocument(qkv, heads, first)), 1e-9);
      EXPECT_LT(MaxDifference(doubles[0], expected[0]), 1e-9);
      EXPECT_LT(MaxDifference(attend(single).to(at::kDouble), attend(qkv)), 1e-5);
      EXPECT_LT(MaxDifference(singles[0].to(at::kDouble), expected[0]), 1e-4);
    }
  }
}

TEST(DocumentAttentionTest, OtherDocumentsChangeNoBitOfOutputsAndGradients) {
  at::manual_seed(16);
  const AttentionHeads heads{4, 2, 16};
  const int64_t length = 400, begin = 90, end = 260;
  at::Tensor first = at::zeros({1, length}, at::kInt);
  first.narrow(1, begin, end - begin).fill_(begin);
  first.narrow(1, end, length - end).fill_(end);
  const at::Tensor qkv = RandomLeaf({1, length, heads.qkv_width()}).detach().to(at::kFloat);
  const at::Tensor upstream = at::randn({1, length, heads.query_width()});
  const AttentionTables tables = TablesOf(length, heads, qkv.options());
  const auto run = [&](const at::Tensor& x) {
    const at::Tensor leaf = x.clone().requires_grad_();
    const at::Tensor out = CausalAttention(leaf, tables, first);
    return std::vector{
        out.detach(),
        GradientsOf([&] { return (CausalAttention(leaf, tables, first) * upstream).sum(); },
                    {leaf})[0]};
  };
  at::Tensor changed = qkv.clone();
  changed.narrow(1, begin, end - begin).mul_(-3);
  const auto before = run(qkv), after = run(changed);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(before[i].narrow(1, 0, begin), after[i].narrow(1, 0, begin)));
    EXPECT_TRUE(
        at::equal(before[i].narrow(1, end, length - end), after[i].narrow(1, end, length - end)));
    EXPECT_FALSE(at::equal(before[i], after[i]));
  }
}

// The sum of key and value gradients over the query heads of a group has a fixed order.
TEST(CausalAttentionThreadsTest, BitsDoNotDependOnTheNumberOfThreads) {
  at::manual_seed(10);
  const AttentionHeads heads{8, 2, 16};
  const at::Tensor qkv = RandomLeaf({3, 200, heads.qkv_width()}).detach().to(at::kFloat);
  const at::Tensor upstream = at::randn({3, 200, heads.query_width()});
  const AttentionTables tables = TablesOf(200, heads, qkv.options());
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> gradients;
  for (const int count : {1, 2, 3, 7}) {
    at::set_num_threads(count);
    const at::Tensor leaf = qkv.clone().requires_grad_();
    gradients.push_back(
        GradientsOf([&] { return (CausalAttention(leaf, tables) * upstream).sum(); }, {leaf})[0]);
    EXPECT_TRUE(at::equal(gradients.front(), gradients.back())) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(CausalAttentionGradientTest, EqualsFiniteDifferences) {
  at::manual_seed(6);
  for (const AttentionHeads& heads : {AttentionHeads{2, 2, 4}, AttentionHeads{4, 2, 4}}) {
    const at::Tensor qkv = RandomLeaf({1, 6, heads.qkv_width()});
    const at::Tensor upstream = at::randn({1, 6, heads.query_width()}, at::kDouble);
    const AttentionTables tables = TablesOf(6, heads, at::TensorOptions(at::kDouble));
    const at::Tensor documents = at::tensor({0, 0, 0, 3, 3, 3}, at::kInt).view({1, 6});
    for (const at::Tensor& first : {at::Tensor(), documents}) {
      const auto loss = [&] { return (CausalAttention(qkv, tables, first) * upstream).sum(); };
      EXPECT_LT(FiniteDifferenceError(loss, {qkv}, 60), 1e-7) << first.defined();
    }
  }
}

TEST(CausalAttendTest, LastQueriesSeeAllEarlierKeys) {
  at::manual_seed(7);
  for (const int64_t key_heads : {1, 2, 4}) {
    const at::Tensor q = at::randn({4, 9, 4}, at::kDouble);
    const at::Tensor k = at::randn({key_heads, 9, 4}, at::kDouble);
    const at::Tensor v = at::randn({key_heads, 9, 4}, at::kDouble);
    const at::Tensor all = CausalAttend(q, k, v);
    const at::Tensor last = q.narrow(1, 6, 3).contiguous();
    EXPECT_LT(MaxDifference(CausalAttend(last, k, v), all.narrow(1, 6, 3)), 1e-12);
    const int64_t group = 4 / key_heads;
    EXPECT_LT(
        MaxDifference(CausalAttend(q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)),
                      all),
        1e-12);
  }
}

// Every kind of scaling, for frequencies on both sides of the bounds and between them.
TEST(RotaryEmbeddingTest, ScaledFrequenciesAreThoseOfHuggingFace) {
  v1::RopeScaling linear, llama3;
  linear.set_type(v1::LINEAR_ROPE);
  linear.set_factor(3);
  llama3.set_type(v1::LLAMA3_ROPE);
  llama3.set_factor(32);
  llama3.set_low_frequency_factor(1);
  llama3.set_high_frequency_factor(4);
  llama3.set_original_length(8192);
  for (const v1::RopeScaling& scaling : {v1::RopeScaling(), linear, llama3}) {
    const std::vector<double> got = RotaryFrequencies(64, 500000, scaling);
    ASSERT_EQ(got.size(), 32u);
    for (int64_t j = 0; j < 32; ++j) {
      EXPECT_NEAR(got[j] / ReferenceFrequency(j, 64, {500000, scaling}), 1, 1e-12) << j;
    }
  }
}

TEST(RotaryEmbeddingTest, ScoresDependOnDistanceOnly) {
  at::manual_seed(8);
  const at::Tensor token = at::randn({1, 1, 3 * 8}, at::kDouble);
  const AttentionTables tables = TablesOf(64, {1, 1, 8}, at::TensorOptions(at::kDouble));
  const auto score = [&](int64_t query, int64_t key) {
    return (RotateHeads(token, tables, query).q * RotateHeads(token, tables, key).k)
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(score(10, 3), score(57, 50), 1e-12);
  EXPECT_GT(std::abs(score(10, 3) - score(10, 4)), 1e-6);
}

// The Hugging Face pairing: element j rotates with element j + hd/2.
TEST(RotaryEmbeddingTest, RotatesPairsAsComplexNumbers) {
  const std::vector<double> head = {0.3, -1.2, 0.8, 2.0};
  at::Tensor qkv = at::zeros({1, 1, 12}, at::kDouble);
  qkv[0][0].narrow(0, 4, 4).copy_(at::tensor(head, at::kDouble));
  const AttentionTables tables = TablesOf(16, {1, 1, 4}, at::TensorOptions(at::kDouble));
  const at::Tensor k = RotateHeads(qkv, tables, 5).k.flatten();
  for (int j = 0; j < 2; ++j) {
    const std::complex<double> turned = std::complex<double>(head[j], head[j + 2]) *
                                        std::polar(1.0, 5 * std::pow(kTheta, -2.0 * j / 4));
    EXPECT_NEAR(k[j].item<double>(), turned.real(), 1e-12);
    EXPECT_NEAR(k[j + 2].item<double>(), turned.imag(), 1e-12);
  }
}

// Compares branches of one sequence with separate sequences.
TEST_P(CausalAttentionTest, BranchesEqualWholeSequences) {
  at::manual_seed(11);
  const int64_t length = GetParam(), branches = 3, heads = 4, width = 4;
  for (const int64_t key_heads : {4, 2}) {
    for (int64_t shared : {1, 5, 200}) {
      const auto random = [&](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
      const at::Tensor keys = random({key_heads, shared, width});
      const at::Tensor values = random({key_heads, shared, width});
      const std::vector<int64_t> shape = {branches, key_heads, length, width};
      const RotatedHeads own = {random({branches, heads, length, width}), random(shape),
                                random(shape)};
      const at::Tensor got = BranchAttend(own, keys, values);
      for (int64_t i = 0; i < branches; ++i) {
        const at::Tensor expected =
            CausalAttend(own.q[i], at::cat({keys, own.k[i]}, 1), at::cat({values, own.v[i]}, 1));
        EXPECT_LT(MaxDifference(got[i], expected.transpose(0, 1).reshape({length, -1})), 1e-10);
      }
    }
  }
}

}  // namespace attention_test
}  // namespace braid
