#include "evaluation/tasks/task_figures.h"

#include <gtest/gtest.h>

#include <random>

#include "evaluation/tasks/task_spec.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace task_figures_test {

// Returns `count` examples with two to four choices and random texts and scores.
LoadedTask RandomTask(int count, std::mt19937* random, std::vector<ExampleAnswer>* answers) {
  LoadedTask task;
  task.spec = BuiltinTask("mrpc").value();
  task.spec.clear_figures();
  for (const auto figure : {v1::ACC, v1::ACC_NORM, v1::ACC_PER_TOKEN, v1::ACC_PER_BYTE,
                            v1::ACC_UNCONDITIONAL, v1::F1}) {
    task.spec.add_figures(figure);
  }
  for (int i = 0; i < count; ++i) {
    TaskExample example;
    ExampleAnswer answer;
    answer.example = i;
    const size_t choices = 2 + (*random)() % 3;
    for (size_t c = 0; c < choices; ++c) {
      std::string text = "\xC3\xA9";
      for (size_t n = (*random)() % 5; n > 0; --n) text += n % 2 ? "\xC3\xA9" : "e";
      example.continuations.push_back(text);
      const auto score = [&] { return -static_cast<double>((*random)() % 40) / 4; };
      answer.choices.push_back({score(), 1 + static_cast<int64_t>((*random)() % 4), score()});
    }
    example.gold = static_cast<int>((*random)() % choices);
    task.examples.push_back(example);
    answers->push_back(answer);
  }
  return task;
}

// Returns the first choice that no other exceeds, by naive loops.
int SlowPrediction(const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    bool beaten = false;
    for (const double other : values) beaten = beaten || other > values[i];
    if (!beaten) return static_cast<int>(i);
  }
  return -1;
}

double Value(int figure, const ChoiceScore& score, const std::string& text) {
  double characters = 0;
  for (const char c : text) characters += c == 'e' ? 1 : 0.5;
  const double by[] = {1, characters, static_cast<double>(score.num_tokens),
                       static_cast<double>(text.size())};
  return figure < 4 ? score.log_prob / by[figure] : score.log_prob - score.unconditional_log_prob;
}

TEST(TaskFiguresTest, AgreeWithNaiveLoops) {
  std::mt19937 random(3);
  std::vector<ExampleAnswer> answers;
  const LoadedTask task = RandomTask(200, &random, &answers);
  const std::vector<v1::TaskMetric> metrics = TaskFigures(task, answers);
  ASSERT_EQ(metrics.size(), 6u);
  double chance = 0;
  for (int figure = 0; figure < 5; ++figure) {
    double right = 0;
    for (const ExampleAnswer& answer : answers) {
      const TaskExample& example = task.examples[static_cast<size_t>(answer.example)];
      std::vector<double> values;
      for (size_t c = 0; c < answer.choices.size(); ++c) {
        values.push_back(Value(figure, answer.choices[c], example.continuations[c]));
      }
      right += SlowPrediction(values) == example.gold;
      if (figure == 0) chance += 1.0 / static_cast<double>(values.size()) / 200;
    }
    EXPECT_DOUBLE_EQ(metrics[static_cast<size_t>(figure)].value(), right / 200) << figure;
    EXPECT_LT(metrics[static_cast<size_t>(figure)].interval().low(), right / 200);
    EXPECT_GT(metrics[static_cast<size_t>(figure)].interval().high(), right / 200);
  }
  EXPECT_NEAR(ChanceLevel(task, answers), chance, 1e-12);
}

// A guess has no correlation with the labels.
TEST(TaskFiguresTest, ChanceIsThatOfAccuraciesOnly) {
  std::mt19937 random(4);
  std::vector<ExampleAnswer> answers;
  LoadedTask task = RandomTask(20, &random, &answers);
  EXPECT_GT(ChanceLevel(task, answers), 0.25);
  for (const v1::TaskFigure figure : {v1::MATTHEWS, v1::MACRO_F1, v1::F1, v1::ANSWER_LOSS}) {
    task.spec.set_figures(0, figure);
    EXPECT_EQ(ChanceLevel(task, answers), 0) << figure;
    EXPECT_EQ(UsualChance(task.spec), 0) << figure;
  }
  EXPECT_EQ(UsualChance(BuiltinTask("cola").value()), 0);
  EXPECT_EQ(UsualChance(BuiltinTask("mrpc").value()), 0.5);
  EXPECT_EQ(UsualChance(BuiltinTask("piqa").value()), 0.5);
}

TEST(TaskFiguresTest, F1OfThePositiveLabelByHand) {
  LoadedTask task;
  task.spec = BuiltinTask("mrpc").value();
  std::vector<ExampleAnswer> answers;
  // Gold and answer: TP, TP, FP, FN, TN.
  for (const auto& [gold, said] : {std::pair(1, 1), {1, 1}, {0, 1}, {1, 0}, {0, 0}}) {
    TaskExample example;
    example.continuations = {"no", "yes"};
    example.gold = gold;
    task.examples.push_back(example);
    ExampleAnswer answer;
    answer.example = static_cast<int64_t>(answers.size());
    answer.choices = {{said == 0 ? -1.0 : -2.0, 1, 0}, {said == 1 ? -1.0 : -2.0, 1, 0}};
    answers.push_back(answer);
  }
  const std::vector<v1::TaskMetric> metrics = TaskFigures(task, answers);
  EXPECT_EQ(metrics[0].name(), "acc");
  EXPECT_DOUBLE_EQ(metrics[0].value(), 3.0 / 5);
  EXPECT_EQ(metrics[1].name(), "f1");
  EXPECT_DOUBLE_EQ(metrics[1].value(), 2.0 * 2 / (2 * 2 + 1 + 1));
}

TEST(TaskFiguresTest, EqualChoicesGoToTheFirst) {
  const std::vector<std::string> texts = {"a", "b"};
  ExampleAnswer answer;
  answer.choices = {{-2, 1, 0}, {-2, 1, 0}};
  EXPECT_EQ(PredictedChoice(v1::ACC, answer, texts), 0);
}

TEST(TaskFiguresTest, FreeAnswersByHand) {
  const LoadedTask task = SampleTask("nq");
  std::vector<ExampleAnswer> answers(2);
  answers[0].text = "ada stone";
  answers[1].example = 1;
  answers[1].text = "in 1871";
  const std::vector<v1::TaskMetric> metrics = TaskFigures(task, answers);
  EXPECT_DOUBLE_EQ(metrics[0].value(), 0.5);
  EXPECT_DOUBLE_EQ(metrics[1].value(), (1 + 2.0 / 3) / 2);
  EXPECT_EQ(ChanceLevel(task, answers), 0);
}

}  // namespace task_figures_test
}  // namespace braid
