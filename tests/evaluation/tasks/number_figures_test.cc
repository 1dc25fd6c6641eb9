#include "evaluation/tasks/number_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "evaluation/tasks/task_comparison.h"
#include "evaluation/tasks/task_figures.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace number_figures_test {

// Means first, in long double.
double SlowPearson(const std::vector<NumberPair>& pairs) {
  long double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  const auto n = static_cast<long double>(pairs.size());
  for (const NumberPair& pair : pairs) x += pair.right / n, y += pair.predicted / n;
  for (const NumberPair& pair : pairs) {
    const long double a = pair.right - x, b = pair.predicted - y;
    xx += a * a, yy += b * b, xy += a * b;
  }
  return static_cast<double>(xy / std::sqrt(xx * yy));
}

std::vector<NumberPair> RandomPairs(int count, uint32_t seed, double offset = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<NumberPair> pairs;
  for (int i = 0; i < count; ++i) {
    const double right = normal(random);
    pairs.push_back({right + offset, offset + .5 * right + normal(random)});
  }
  return pairs;
}

TEST(PearsonFigureTest, EqualsTheFormula) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<NumberPair> pairs = RandomPairs(2 + static_cast<int>(seed) * 5, seed);
    EXPECT_NEAR(PearsonFigure(pairs).Value(), SlowPearson(pairs), 1e-12) << seed;
  }
  // Numbers far from zero, whose squares have no digits left for their differences.
  const std::vector<NumberPair> far = RandomPairs(50, 3, 1e7);
  EXPECT_NEAR(PearsonFigure(far).Value(), SlowPearson(far), 1e-7);
  EXPECT_DOUBLE_EQ(PearsonFigure(std::vector<NumberPair>{{1, 3}, {2, 5}, {4, 9}}).Value(), 1);
  EXPECT_DOUBLE_EQ(PearsonFigure(std::vector<NumberPair>{{1, -3}, {2, -5}}).Value(), -1);
}

TEST(PearsonFigureTest, IsZeroWhereItIsUndefined) {
  const double third = 1.0 / 3;
  for (const std::vector<NumberPair>& pairs :
       std::vector<std::vector<NumberPair>>{{},
                                            {{1, 2}},
                                            {{1, third}, {2, third}, {4, third}},
                                            {{third, 1}, {third, 2}, {third, 4}},
                                            {{1e200, 1e200}, {-1e200, 1e200}, {1, 2}}}) {
    EXPECT_EQ(PearsonFigure(pairs).Value(), 0) << pairs.size();
  }
  // A draw may repeat one of several examples.
  const std::vector<NumberPair> pairs = {{.1, .7}, {.2, .9}, {.3, .4}, {.7, .1}};
  for (int i = 0; i < 4; ++i) {
    std::vector<int32_t> draws(4, 0);
    draws[static_cast<size_t>(i)] = 4;
    EXPECT_EQ(PearsonFigure(pairs).Value(draws), 0) << i;
  }
}

TEST(PearsonFigureTest, DrawsCountPairs) {
  const std::vector<NumberPair> pairs = RandomPairs(30, 5);
  std::vector<NumberPair> drawn;
  std::vector<int32_t> draws(pairs.size(), 0);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    draws[i] = 3;
    drawn.insert(drawn.end(), 3, pairs[i]);
  }
  EXPECT_NEAR(PearsonFigure(pairs).Value(draws), SlowPearson(drawn), 1e-12);
}

// Answers whose errors are random numbers of a given size.
std::vector<ExampleAnswer> AnswersWithNoise(const LoadedTask& task, double noise) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  std::vector<ExampleAnswer> answers;
  for (size_t i = 0; i < task.examples.size(); ++i) {
    answers.emplace_back().example = static_cast<int64_t>(i);
    answers.back().number = task.examples[i].number + noise * normal(random);
  }
  return answers;
}

TEST(PearsonFigureTest, IsComparedPairwise) {
  LoadedTask task;
  task.spec = BuiltinTask("stsb").value();
  std::mt19937 random(1);
  for (int i = 0; i < 80; ++i) task.examples.emplace_back().number = random() % 50 / 10.;
  const auto exact = AnswersWithNoise(task, .1), noisy = AnswersWithNoise(task, 2);
  const double gain = TaskFigures(task, exact)[0].value() - TaskFigures(task, noisy)[0].value();
  const std::vector<v1::TaskComparison> comparisons = CompareAnswers(task, noisy, exact);
  ASSERT_EQ(comparisons.size(), 1u);
  EXPECT_EQ(comparisons[0].metric(), "pearson");
  EXPECT_NEAR(comparisons[0].difference(), gain, 1e-12);
  EXPECT_GT(comparisons[0].interval().low(), 0);
  EXPECT_GT(comparisons[0].interval().high(), gain);
  EXPECT_EQ(comparisons[0].num_only_model(), 0);
  const v1::TaskComparison same = CompareAnswers(task, noisy, noisy)[0];
  EXPECT_EQ(same.interval().low(), 0);
  EXPECT_EQ(same.interval().high(), 0);
}

}  // namespace number_figures_test
}  // namespace braid
