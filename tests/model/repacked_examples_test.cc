#include "model/repacked_examples.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace repacked_examples_test {

// Random examples that fill [batch, length].
at::Tensor RandomExamples(int64_t batch, int64_t length, std::mt19937* random) {
  const at::Tensor visible = at::zeros({batch, length}, at::kInt);
  for (int64_t b = 0; b < batch; ++b) {
    int32_t first = 0;
    for (int64_t t = 0; t < length; ++t) {
      if ((*random)() % 5 == 0) first = static_cast<int32_t>(t);
      visible[b][t] = first;
    }
  }
  return visible;
}

// Every wanted example is there once, whole and in order, and sees what it saw before.
TEST(RepackExamplesTest, HoldsTheWantedExamplesWhole) {
  std::mt19937 random(3);
  constexpr int64_t kBatch = 4, kLength = 32;
  int packed_batches = 0;
  for (int trial = 0; trial < 50; ++trial) {
    const at::Tensor visible = RandomExamples(kBatch, kLength, &random);
    const at::Tensor wanted = at::zeros({kBatch * kLength}, at::kBool);
    const int64_t num_wanted = 1 + random() % 6;
    for (int64_t i = 0; i < num_wanted; ++i) {
      wanted[static_cast<int64_t>(random() % (kBatch * kLength))] = true;
    }
    const auto packed = RepackExamples(visible, wanted);
    if (!packed.has_value()) continue;
    ++packed_batches;
    const int64_t length = packed->visible.size(1);
    ASSERT_LE(length, kLength);
    ASSERT_LT(packed->visible.numel(), visible.numel());
    ASSERT_TRUE(at::equal(packed->source.index_select(0, packed->places), packed->positions));
    at::Tensor found = at::zeros({kBatch * kLength}, at::kLong);
    for (int64_t i = 0; i < packed->places.numel(); ++i) {
      const int64_t place = packed->places[i].item<int64_t>();
      const int64_t position = packed->positions[i].item<int64_t>();
      found[position] += 1;
      const auto seen = [&](const at::Tensor& first, int64_t at, int64_t of_length) {
        return at % of_length - first.flatten()[at].item<int64_t>();
      };
      const int64_t before = seen(packed->visible, place, length);
      ASSERT_EQ(before, seen(visible, position, kLength));
      ASSERT_EQ(packed->source[place - before].item<int64_t>(), position - before);
    }
    // Expected: all positions of an example with a wanted one.
    const at::Tensor row = at::arange(kBatch).unsqueeze(1) * kLength;
    const at::Tensor example = (visible.to(at::kLong) + row).flatten();
    at::Tensor of_example = at::zeros({kBatch * kLength}, at::kLong);
    of_example.index_add_(0, example, wanted.to(at::kLong));
    ASSERT_TRUE(at::equal(found, of_example.index_select(0, example).gt(0).to(at::kLong)));
  }
  EXPECT_GT(packed_batches, 20);
}

TEST(RepackExamplesTest, AllExamplesOrNoneAreNotPacked) {
  std::mt19937 random(3);
  const at::Tensor visible = RandomExamples(2, 16, &random);
  EXPECT_FALSE(RepackExamples(visible, at::ones({32}, at::kBool)).has_value());
  EXPECT_FALSE(RepackExamples(visible, at::zeros({32}, at::kBool)).has_value());
}

// Attention that reaches across the borders of examples keeps them in their places.
TEST(RepackExamplesTest, PositionsThatSeeEarlierExamplesAreNotPacked) {
  const at::Tensor visible = at::tensor({0, 0, 0, 0, 1, 1, 1, 1}, at::kInt).view({1, 8});
  const at::Tensor wanted = at::zeros({8}, at::kBool);
  wanted[0] = true;
  EXPECT_FALSE(RepackExamples(visible, wanted).has_value());
}

}  // namespace repacked_examples_test
}  // namespace braid
