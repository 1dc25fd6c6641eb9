// Measures the cost of monitoring the experts of one layer: the sums over its routing weights in
// every step, and the cosine of its experts in every measured step.
//
//   braid-bench-routing-health
//
// Uses 8 and 32 experts with D 512 and F 1408, one sequence of 4096 positions and one thread.
// Prints one JSON line for each, for the fastest of five runs.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "trainer/expert_similarity.h"
#include "trainer/routing_totals.h"

namespace braid {
namespace {

constexpr size_t kWidth = 512, kFfnWidth = 1408, kSegments = 16, kTokens = 4096;

double BestMicroseconds(const std::function<void()>& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

double SumsMicroseconds(size_t decisions, int experts) {
  const std::vector<float> weights(decisions * experts, 1.0f / static_cast<float>(experts));
  RoutingTotals totals(experts);
  return BestMicroseconds([&] { AddDecisions(weights, &totals); });
}

double CosineMicroseconds(int experts) {
  std::mt19937 random(1);
  const size_t size = experts * kWidth * kFfnWidth;
  std::vector<float> values(3 * size);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-32f - 0.5f;
  const std::span<const float> all(values);
  // Gate, up and down projections.
  const std::span<const float> matrices[] = {all.first(size), all.subspan(size, size),
                                             all.last(size)};
  return BestMicroseconds([&] { MeanPairwiseCosine(matrices, experts); });
}

void Run(int experts) {
  std::cout << "{\"experts\":" << experts
            << ",\"segment_sums_us\":" << SumsMicroseconds(kSegments, experts)
            << ",\"token_sums_us\":" << SumsMicroseconds(kTokens, experts)
            << ",\"cosine_ms\":" << CosineMicroseconds(experts) / 1000 << "}" << std::endl;
}

}  // namespace
}  // namespace braid

int main() {
  braid::Run(8);
  braid::Run(32);
}
