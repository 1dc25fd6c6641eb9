#include "evaluation/probing/probe_classifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/splitmix.h"

namespace braid {
namespace probe_classifier_test {

constexpr int64_t kRows = 600, kTest = 1000, kWidth = 12;

std::vector<float> RandomVectors(int64_t rows, uint64_t seed) {
  std::vector<float> vectors(rows * kWidth);
  uint64_t state = seed;
  for (float& value : vectors) {
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += UnitInterval(NextSplitMix64(&state)) - .5;
    value = static_cast<float>(3 + 100 * sum);
  }
  return vectors;
}

// Labels rows by `label`, and returns the share of test rows that are predicted correctly.
template <class Label>
double Accuracy(const Label& label, ProbeClassifierOptions options) {
  const std::vector<float> training = RandomVectors(kRows, 1), test = RandomVectors(kTest, 2);
  const auto labels_of = [&](const std::vector<float>& vectors) {
    std::vector<int32_t> labels;
    for (size_t i = 0; i < vectors.size(); i += kWidth) labels.push_back(label(&vectors[i]));
    return labels;
  };
  options.width = kWidth;
  const std::vector<int32_t> predicted =
      PredictLabels({training, labels_of(training)}, test, options);
  EXPECT_EQ(predicted, PredictLabels({training, labels_of(training)}, test, options));
  const std::vector<int32_t> expected = labels_of(test);
  double correct = 0;
  for (int64_t i = 0; i < kTest; ++i) correct += predicted[i] == expected[i];
  return correct / kTest;
}

TEST(ProbeClassifierTest, FindsALinearRuleInBadlyScaledFeatures) {
  const auto rule = [](const float* x) { return x[0] + 2 * x[3] - x[7] > 6 ? 1 : 0; };
  EXPECT_GT(Accuracy(rule, {.num_classes = 2}), .95);
  const auto thirds = [](const float* x) { return x[5] < -20 ? 0 : x[5] < 26 ? 1 : 2; };
  EXPECT_GT(Accuracy(thirds, {.num_classes = 3}), .85);
}

TEST(ProbeClassifierTest, HiddenUnitsFindWhatNoLinearRuleDoes) {
  const auto apart = [](const float* x) { return (x[0] - 3) * (x[1] - 3) > 0 ? 1 : 0; };
  EXPECT_LT(Accuracy(apart, {.num_classes = 2}), .6);
  EXPECT_GT(Accuracy(apart, {.num_classes = 2, .hidden_units = 24, .seed = 3}), .68);
}

TEST(ProbeClassifierTest, IsAtChanceWhereLabelsDoNotDependOnVectors) {
  uint64_t state = 5;
  const auto coin = [&](const float*) { return static_cast<int32_t>(NextSplitMix64(&state) % 4); };
  const std::vector<float> training = RandomVectors(kRows, 1), test = RandomVectors(kTest, 2);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kRows; ++i) labels.push_back(coin(nullptr));
  const std::vector<int32_t> predicted =
      PredictLabels({training, labels}, test, {.num_classes = 4, .width = kWidth});
  double correct = 0;
  for (int64_t i = 0; i < kTest; ++i) correct += predicted[i] == coin(nullptr);
  EXPECT_NEAR(correct / kTest, .25, .07);
}

TEST(ProbeClassifierTest, ConstantFeaturesAreLeftOut) {
  std::vector<float> training, test;
  std::vector<int32_t> labels;
  for (int i = 0; i < 200; ++i) {
    labels.push_back(i % 2);
    training.insert(training.end(), {1e6F, static_cast<float>(i % 2)});
    test.insert(test.end(), {i < 100 ? -1e6F : 1e6F, static_cast<float>(i % 2)});
  }
  EXPECT_EQ(PredictLabels({training, labels}, test, {.num_classes = 2, .width = 2}), labels);
}

}  // namespace probe_classifier_test
}  // namespace braid
