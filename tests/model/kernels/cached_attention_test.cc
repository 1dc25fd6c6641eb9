// Tokens after a cache against attention over the whole sequence in double precision.
#include "model/kernels/cached_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace cached_attention_test {

constexpr int64_t kLength = 40;

AttentionTables TablesOf(const AttentionHeads& heads, at::ScalarType type) {
  std::vector<double> frequencies;
  for (int64_t j = 0; j < heads.width / 2; ++j) frequencies.push_back(std::pow(0.3, j));
  return MakeAttentionTables(kLength, heads, frequencies, at::TensorOptions(type));
}

// Attends `qkv` [L, width] in pieces of these sizes. `first` [L] is relative to `begin`; undefined:
// all see that position.
at::Tensor InPieces(const at::Tensor& qkv, const AttentionHeads& heads,
                    const std::vector<int64_t>& sizes, int64_t begin = 0,
                    const at::Tensor& first = {}) {
  const at::Tensor cache = at::full({2, heads.key_value, kLength, heads.width},
                                    std::numeric_limits<double>::quiet_NaN(), qkv.options());
  std::vector<at::Tensor> pieces;
  int64_t position = 0;
  for (const int64_t size : sizes) {
    // Before `begin`, tokens see what there is.
    const bool sees_all = position < begin;
    const at::Tensor own =
        first.defined() && !sees_all ? first.narrow(0, position, size).contiguous() : at::Tensor();
    pieces.push_back(AttendToCache(qkv.narrow(0, position, size),
                                   TablesOf(heads, qkv.scalar_type()),
                                   {cache[0], cache[1], position, sees_all ? 0 : begin, own}));
    position += size;
  }
  return at::cat(pieces);
}

TEST(CachedAttentionTest, PiecesOfAnySizeEqualTheWhole) {
  at::manual_seed(5);
  for (const AttentionHeads& heads :
       {AttentionHeads{4, 4, 16}, AttentionHeads{6, 2, 10}, AttentionHeads{3, 1, 64}}) {
    const at::Tensor qkv = at::randn({kLength, heads.qkv_width()}, at::kDouble);
    const at::Tensor whole = CausalAttention(qkv.unsqueeze(0), TablesOf(heads, at::kDouble))[0];
    const at::Tensor single = qkv.to(at::kFloat);
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>(kLength, 1), {12, 8, 8, 1, 3, 8}, {8, 32}, {9, 1, 30}}) {
      EXPECT_LT(MaxDifference(InPieces(qkv, heads, sizes), whole), 1e-12);
      EXPECT_LT(MaxDifference(InPieces(single, heads, sizes).to(at::kDouble), whole), 1e-5);
    }
  }
}

TEST(CachedAttentionTest, TokensSeeNothingBeforeTheirFirstPosition) {
  at::manual_seed(6);
  const AttentionHeads heads{4, 2, 8};
  const at::Tensor qkv = at::randn({kLength, heads.qkv_width()}, at::kDouble);
  const at::Tensor first = at::zeros({kLength}, at::kInt);
  first.narrow(0, 25, kLength - 25).fill_(7);  // that is, position 17
  const std::vector<int64_t> sizes = {10, 5, 5, 5, 5, 1, 8, 1};
  const at::Tensor expected = InPieces(qkv, heads, sizes, 10, first);
  const at::Tensor got = InPieces(qkv.to(at::kFloat), heads, sizes, 10, first);
  EXPECT_LT(MaxDifference(got.to(at::kDouble), expected), 1e-5);
}

TEST(CachedAttentionTest, BitsDoNotDependOnThreadsAndUndefinedValuesPassOn) {
  at::manual_seed(8);
  const AttentionHeads heads{4, 4, 16};
  const at::Tensor qkv = at::randn({kLength, heads.qkv_width()});
  const std::vector<int64_t> sizes(kLength / 8, 8);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = InPieces(qkv, heads, sizes);
  for (const int num_threads : {2, 3}) {
    at::set_num_threads(num_threads);
    EXPECT_TRUE(at::equal(InPieces(qkv, heads, sizes), alone));
  }
  at::set_num_threads(threads);
  qkv[3].fill_(std::numeric_limits<double>::quiet_NaN());
  const at::Tensor out = InPieces(qkv, heads, sizes);
  EXPECT_FALSE(out.narrow(0, 0, 3).isnan().any().item<bool>());
  EXPECT_TRUE(out.narrow(0, 3, kLength - 3).isnan().all().item<bool>());
}

}  // namespace cached_attention_test
}  // namespace braid
