#include "reproduce/task_contrast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "reproduce/setting_search.h"

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
  EXPECT_EQ(missing.message(), "no run of b on t");
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

TEST(SettingSearchTest, ChoosesTheSettingWithTheHighestMeanOverSeeds) {
  Evidence evidence;
  for (const uint64_t seed : {0, 1}) {
    const double better = seed == 0 ? 1 : 0;
    evidence.results.push_back(Tuned("plain", "t", seed, {0, 0, 1, 1}));
    evidence.results.push_back(Tuned("a", "t", seed, {better, better, 1, 1}));
    evidence.results.push_back(Tuned("b", "t", seed, {1, 0, 1, 1}));
    evidence.results.push_back(Tuned("c", "t", seed, {1, 1, 1, 0}));
  }
  const SettingSearch search = {
      .plain = "plain", .settings = {"a", "b", "c"}, .tasks = {{"t", "t"}}};
  const auto gain = GainOfSearch(evidence, search, kOptions);
  ASSERT_TRUE(gain.ok()) << gain.status();
  EXPECT_EQ(gain->chosen, std::vector<std::string>{"a"});  // all have 6 of 8: the first
  EXPECT_DOUBLE_EQ(gain->on_same_examples.effect, 0.25);
  // Examples 1 and 3 choose a (3 of 4, as b has 2 and c 2) for examples 0 and 2; those choose b
  // (4 of 4) for examples 1 and 3.
  EXPECT_DOUBLE_EQ(gain->on_other_examples.effect, (0.5 + 0 + 0 + 0) / 4);
  evidence.results.pop_back();
  EXPECT_THAT(std::string(GainOfSearch(evidence, search, kOptions).status().message()),
              HasSubstr("c on t, seed 1"));
}

// Settings that are all like plain tuning: the search reports a gain, other examples show that
// there is none.
TEST(SettingSearchTest, GainsOfChanceVanishOnOtherExamples) {
  std::mt19937_64 random(3);
  double same = 0, other = 0;
  constexpr int kWorlds = 400;
  for (int world = 0; world < kWorlds; ++world) {
    Evidence evidence;
    for (const std::string arm : {"plain", "a", "b", "c", "d", "e"}) {
      std::vector<double> figures(100);
      for (double& figure : figures) figure = std::bernoulli_distribution(0.7)(random);
      evidence.results.push_back(Tuned(arm, "t", 0, figures));
    }
    const auto gain = GainOfSearch(
        evidence, {.plain = "plain", .settings = {"a", "b", "c", "d", "e"}, .tasks = {{"t", "t"}}},
        {.samples = 10});
    ASSERT_TRUE(gain.ok()) << gain.status();
    same += gain->on_same_examples.effect / kWorlds;
    other += gain->on_other_examples.effect / kWorlds;
  }
  // The highest of 5 normal deviates is 1.16 deviations above their mean, here .046 each.
  EXPECT_NEAR(same, 0.053, 0.015);
  EXPECT_NEAR(other, 0, 0.015);
}

}  // namespace task_contrast_test
}  // namespace braid
