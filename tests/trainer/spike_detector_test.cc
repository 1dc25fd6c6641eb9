#include "trainer/spike_detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/splitmix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace braid {
namespace spike_detector_test {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The definition with sorted copies.
double SlowMedian(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double SlowZScore(const std::vector<double>& history, double value) {
  const double median = SlowMedian(history);
  std::vector<double> distances;
  for (const double x : history) distances.push_back(std::abs(x - median));
  return (value - median) / std::max(1e-3, 1.4826 * SlowMedian(distances));
}

v1::SpikeConfig Config(double threshold, int32_t window) {
  v1::SpikeConfig config;
  config.set_threshold(threshold);
  config.set_window(window);
  return config;
}

SpikeHistory Noise(int count) {
  SpikeHistory history;
  uint64_t state = 5;
  for (int i = 0; i < count; ++i) {
    RememberStep(Config(10, 128), 3 + 0.1 * UnitInterval(NextSplitMix64(&state)),
                 1 + UnitInterval(NextSplitMix64(&state)), &history);
  }
  return history;
}

TEST(SpikeDetectorTest, ScoresAsTheDefinitionDoes) {
  uint64_t state = 1;
  for (int size = 1; size < 40; ++size) {
    std::vector<double> history;
    for (int i = 0; i < size; ++i) history.push_back(UnitInterval(NextSplitMix64(&state)) * 4 - 2);
    for (const double value : {-3.0, 0.0, 0.3, 7.5}) {
      EXPECT_DOUBLE_EQ(RobustZScore(history, value), SlowZScore(history, value)) << size;
    }
  }
}

// Half of the history may be outliers, which would hide a spike from a mean and a deviation.
TEST(SpikeDetectorTest, OutliersInTheHistoryDoNotHideASpike) {
  std::vector<double> history(60, 0);
  for (size_t i = 0; i < history.size(); ++i) history[i] = 3 + 0.01 * static_cast<double>(i % 7);
  for (size_t i = 0; i < history.size(); i += 3) history[i] = 9;
  EXPECT_GT(RobustZScore(history, 4), 10);
}

TEST(SpikeDetectorTest, FindsSpikesOfLossAndOfGradientNorm) {
  const SpikeHistory history = Noise(128);
  const v1::SpikeConfig config = Config(10, 128);
  EXPECT_FALSE(JudgeStep(config, history, 3.05, 1.5).is_spike);
  EXPECT_FALSE(JudgeStep(config, history, 1, 0.001).is_spike) << "a fall is not a spike";
  EXPECT_TRUE(JudgeStep(config, history, 4.5, 1.5).is_spike);
  const SpikeVerdict norm = JudgeStep(config, history, 3.05, 500);
  EXPECT_TRUE(norm.is_spike);
  EXPECT_LT(norm.loss_z, 10);
  EXPECT_GT(norm.gradient_norm_z, 10);
  EXPECT_FALSE(JudgeStep(Config(0, 128), history, 4.5, 500).is_spike) << "switched off";
}

TEST(SpikeDetectorTest, ValuesThatAreNotFiniteAreSpikesFromTheFirstStep) {
  for (const double bad : {kNan, kInfinity}) {
    EXPECT_TRUE(JudgeStep(Config(10, 128), {}, bad, 1).is_spike);
    EXPECT_TRUE(JudgeStep(Config(10, 128), {}, 3, bad).is_spike);
    EXPECT_TRUE(JudgeStep(Config(10, 128), Noise(64), 3, bad).is_spike);
    EXPECT_TRUE(JudgeStep(Config(10, 128), Noise(64), bad, 1).is_spike);
  }
}

TEST(SpikeDetectorTest, WaitsForAQuarterOfTheWindow) {
  EXPECT_FALSE(JudgeStep(Config(10, 128), Noise(31), 100, 100).is_spike);
  EXPECT_TRUE(JudgeStep(Config(10, 128), Noise(32), 100, 100).is_spike);
}

TEST(SpikeDetectorTest, RemembersTheNewestStepsOfTheWindow) {
  SpikeHistory history;
  for (int i = 0; i < 10; ++i) RememberStep(Config(10, 4), i, std::exp(i), &history);
  EXPECT_THAT(history.losses, testing::ElementsAre(6, 7, 8, 9));
  ASSERT_EQ(history.log_norms.size(), 4u);
  EXPECT_NEAR(history.log_norms[0], 6, 1e-12);
  RememberStep(Config(10, 4), kNan, 1, &history);
  EXPECT_THAT(history.losses, testing::ElementsAre(6, 7, 8, 9));
}

TEST(SpikeDetectorTest, GivesUpWhenSkippingDoesNotHelp) {
  SpikeHistory history;
  v1::LossSpike spike;
  spike.set_step(70);
  for (int i = 1; i < kMaxConsecutiveSpikes; ++i) EXPECT_TRUE(CountSpike(spike, &history).ok());
  const absl::Status status = CountSpike(spike, &history);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("step 70: the 10th loss spike"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("spikes.threshold"));
  spike.set_gradient_norm(kNan);
  EXPECT_THAT(std::string(CountSpike(spike, &history).message()),
              testing::EndsWith("lower optimizer.learning_rate"));
  RememberStep(Config(10, 4), 3, 1, &history);
  EXPECT_TRUE(CountSpike(spike, &history).ok()) << "a step that was kept begins a new count";
}

}  // namespace spike_detector_test
}  // namespace braid
