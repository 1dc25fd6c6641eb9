#include "reproduce/task_contrast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace braid {
namespace task_contrast_test {

using testing::HasSubstr;

const PairedBootstrapOptions kOptions = {.samples = 400};

ArmResult Tuned(const std::string& arm, const std::string& task, uint64_t seed,
                std::vector<double> losses) {
  ArmResult result{.arm = arm, .order = v1::RANDOM, .seed = seed, .task = task};
  result.tasks.push_back({.task = task, .answer_losses = losses, .figures = losses});
  return result;
}

TaskContrast Of(std::vector<AskedTask> tasks) {
  return {.arms = {{+1, "a"}, {-1, "b"}}, .tasks = std::move(tasks)};
}

TEST(TaskContrastTest, TasksCountAlike) {
  Evidence evidence;
  evidence.results = {Tuned("a", "t", 0, {1, 2, 3}), Tuned("b", "t", 0, {0, 0, 0}),
                      Tuned("a", "u", 0, {5, 5}), Tuned("b", "u", 0, {1, 1})};
  const auto effect = TaskEffect(evidence, Of({{"t", "t"}, {"u", "u"}}), kOptions);
  ASSERT_TRUE(effect.ok()) << effect.status();
  EXPECT_DOUBLE_EQ(effect->effect, (2.0 + 4.0) / 2);
  EXPECT_EQ(effect->num_units, 5);
}

TEST(TaskContrastTest, SeedsWithoutAPairAreLeftOut) {
  Evidence evidence;
  evidence.results = {Tuned("a", "t", 0, {1, 1}), Tuned("b", "t", 0, {0, 0}),
                      Tuned("a", "t", 1, {9, 9})};
  const auto effect = TaskEffect(evidence, Of({{"t", "t"}}), kOptions);
  ASSERT_TRUE(effect.ok()) << effect.status();
  EXPECT_EQ(effect->by_seed, (std::vector<double>{1}));
  evidence.results.erase(evidence.results.begin() + 1);
  const absl::Status missing = TaskEffect(evidence, Of({{"t", "t"}}), kOptions).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("b on t"));
}

TEST(TaskContrastTest, NamesWhatWasNotScored) {
  Evidence evidence;
  evidence.results = {Tuned("a", "t", 0, {1, 1}), Tuned("b", "t", 0, {0, 0})};
  EXPECT_THAT(std::string(TaskEffect(evidence, Of({{"t", "u"}}), kOptions).status().message()),
              HasSubstr("not scored on u"));
  TaskContrast recomposed = Of({{"t", "t"}});
  recomposed.arms[0].scoring = "recomposed";
  EXPECT_FALSE(TaskEffect(evidence, recomposed, kOptions).ok());
  evidence.results[1] = Tuned("b", "t", 0, {0, 0, 0});
  EXPECT_EQ(TaskEffect(evidence, Of({{"t", "t"}}), kOptions).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(TaskEffect({}, Of({{"t", "t"}}), kOptions).ok());
}

// Examples and seeds are drawn from normal distributions around a known effect: each example has an
// effect of its own that all seeds share, each seed one that all examples share, and each pair a
// remainder. 95 % intervals must contain the effect about as often.
TEST(TaskContrastTest, IntervalsContainTheTrueEffectAtTheirConfidenceLevel) {
  constexpr double kEffect = 0.1;
  std::mt19937_64 random(11);
  const auto normal = [&](double deviation) {
    return std::normal_distribution<double>(0, deviation)(random);
  };
  int covered = 0;
  constexpr int kWorlds = 300;
  for (int world = 0; world < kWorlds; ++world) {
    Evidence evidence;
    std::vector<double> level(60), of_example(60);
    for (double& each : level) each = 1 + normal(1);
    for (double& each : of_example) each = normal(0.2);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const double of_seed = normal(0.05);
      std::vector<double> worse = level, better = level;
      for (size_t i = 0; i < level.size(); ++i) {
        worse[i] += kEffect + of_example[i] + of_seed + normal(0.1);
      }
      evidence.results.push_back(Tuned("a", "t", seed, worse));
      evidence.results.push_back(Tuned("b", "t", seed, better));
    }
    const auto effect = TaskEffect(evidence, Of({{"t", "t"}}), kOptions);
    ASSERT_TRUE(effect.ok()) << effect.status();
    covered += effect->low <= kEffect && kEffect <= effect->high;
  }
  EXPECT_GE(covered, 0.92 * kWorlds);
  EXPECT_LE(covered, 0.99 * kWorlds);
}

}  // namespace task_contrast_test
}  // namespace braid
