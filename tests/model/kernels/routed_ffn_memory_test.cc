// The memory that the routed FFN kernel takes.
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/fused_ffn.h"
#include "model/kernels/routed_ffn.h"
#include "model/kernels/scratch.h"

namespace braid {
namespace routed_ffn_memory_test {

TEST(RoutedFfnMemoryTest, ScratchHasABoundThatTheNumberOfExpertsDoesNotRaise) {
  if (!HasFusedFfn()) GTEST_SKIP() << "no kernels for this CPU";
  constexpr int64_t kTokens = 2048, kWidth = 32, kActive = 2;
  const auto scratch_of = [](int64_t experts, int64_t hidden) {
    const std::vector<float> values(std::max(kTokens * kWidth, experts * hidden * kWidth), 0.1f);
    std::vector<float> out(values.size()), gradients(values.size());
    std::vector<int32_t> chosen;
    for (int64_t t = 0; t < kTokens; ++t) {
      const int32_t first = static_cast<int32_t>(t % (experts - 1));
      chosen.insert(chosen.end(), {first, first + 1});
    }
    const RoutedFfnShape shape = {kTokens, kWidth, hidden, experts, kActive};
    const ChosenExperts choice = {chosen.data(), nullptr};
    std::vector<float> kept(RoutedKeptSize(shape, choice));
    const FfnMatrices matrices = {values.data(), values.data(), values.data()};
    int64_t held = 0;
    // A new thread has no scratch memory yet.
    std::thread([&] {
      RoutedFfnForward(shape, values.data(), choice, matrices, kept.data(), out.data(), 2);
      RoutedFfnBackward(shape, values.data(), choice, matrices, kept.data(), values.data(),
                        out.data(), nullptr, {gradients.data(), gradients.data(), gradients.data()},
                        2);
      held = Scratch::HeldByThread();
    }).join();
    return held;
  };
  const int64_t of_few = scratch_of(8, 70);
  EXPECT_GT(of_few, kTokens * kActive * kWidth);
  EXPECT_LE(scratch_of(256, 70), of_few);
  // Experts of few units: split further, and copied. While each has 64 pairs or more, the packed
  // rows of all experts take at most as many floats as d(gate) and d(up) of all pairs.
  const int64_t of_few_units = scratch_of(8, 48), values = kTokens * kActive * 2 * 48;
  EXPECT_LE(scratch_of(64, 6), of_few_units);
  for (const int64_t experts : {16, 32, 64, 128, 256}) {
    EXPECT_LE(scratch_of(experts, 48), of_few_units + (experts <= 64 ? values : 0)) << experts;
  }
}

TEST(RoutedFfnMemoryTest, KeepsTheShareOfADenseFfnForBackward) {
  const RoutedFfnShape shape = {4096, 512, 128, 16, 4};
  const FfnShape dense = {1, 4096, 512, 2048, 1};
  std::vector<int32_t> chosen(4096 * 4, 7);
  EXPECT_EQ(4 * RoutedKeptSize(shape, {chosen.data(), nullptr}), dense.kept_size());
  std::fill_n(chosen.begin(), 4096, -1);
  EXPECT_EQ(16 * RoutedKeptSize(shape, {chosen.data(), nullptr}), 3 * dense.kept_size());
}

}  // namespace routed_ffn_memory_test
}  // namespace braid
