#include "evaluation/tasks/task_figures.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "evaluation/statistics/bootstrap.h"
#include "evaluation/tasks/answer_loss.h"
#include "evaluation/tasks/answer_text.h"
#include "evaluation/tasks/choice_figures.h"
#include "evaluation/tasks/equation_value.h"
#include "evaluation/tasks/number_figures.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

double FigureOf(v1::TaskFigure figure, const ChoiceScore& score, const std::string& text) {
  switch (figure) {
    case v1::ACC_NORM:
      return score.log_prob / static_cast<double>(std::max<int64_t>(CountCharacters(text), 1));
    case v1::ACC_PER_TOKEN:
      return score.log_prob / static_cast<double>(score.num_tokens);
    case v1::ACC_PER_BYTE:
      return score.log_prob / static_cast<double>(text.size());
    case v1::ACC_UNCONDITIONAL:
      return score.log_prob - score.unconditional_log_prob;
    default:
      return score.log_prob;
  }
}

double IsRight(const LoadedTask& task, v1::TaskFigure figure, const ExampleAnswer& answer) {
  const TaskExample& example = task.examples[static_cast<size_t>(answer.example)];
  const v1::AnswerNormalization normalization = task.spec.free().normalization();
  if (figure == v1::EXACT_MATCH)
    return IsExactMatch(answer.text, example.references, normalization);
  if (figure == v1::SOLVED) {
    return std::ranges::any_of(example.references, [&](const std::string& reference) {
      return SolvesEquation(answer.text, reference);
    });
  }
  if (figure == v1::ANSWER_F1) return AnswerF1(answer.text, example.references, normalization);
  return PredictedChoice(figure, answer, example.continuations) == example.gold;
}

int PositiveChoice(const v1::ChoiceAnswer& choice) {
  const auto found = std::ranges::find(choice.labels(), choice.positive());
  return static_cast<int>(found - choice.labels().begin());
}

std::vector<Prediction> PredictionsOf(const LoadedTask& task,
                                      std::span<const ExampleAnswer> answers) {
  std::vector<Prediction> predictions;
  for (const ExampleAnswer& answer : answers) {
    const TaskExample& example = task.examples[static_cast<size_t>(answer.example)];
    predictions.push_back({example.gold, PredictedChoice(v1::ACC, answer, example.continuations)});
  }
  return predictions;
}

std::vector<NumberPair> NumbersOf(const LoadedTask& task, std::span<const ExampleAnswer> answers) {
  std::vector<NumberPair> pairs;
  for (const ExampleAnswer& answer : answers) {
    pairs.push_back({task.examples[static_cast<size_t>(answer.example)].number, *answer.number});
  }
  return pairs;
}

// Returns 2 TP / (2 TP + FP + FN), a ratio of sums over examples; 0 without positives.
v1::TaskMetric PositiveF1(const LoadedTask& task, std::span<const ExampleAnswer> answers) {
  const int positive = PositiveChoice(task.spec.choice());
  std::vector<RatioUnit> units;
  RatioUnit sum;
  for (const ExampleAnswer& answer : answers) {
    const TaskExample& example = task.examples[static_cast<size_t>(answer.example)];
    const bool said = PredictedChoice(v1::F1, answer, example.continuations) == positive;
    const bool is = example.gold == positive;
    units.push_back({said && is ? 2.0 : 0.0, static_cast<double>(said) + static_cast<double>(is)});
    sum.numerator += units.back().numerator;
    sum.denominator += units.back().denominator;
  }
  v1::TaskMetric metric;
  metric.set_value(sum.denominator > 0 ? sum.numerator / sum.denominator : 0);
  if (sum.denominator > 0) *metric.mutable_interval() = BootstrapRatio(units, {});
  return metric;
}

// Returns 2 TP and 2 TP + FP + FN of each answer.
SummedFigure PositiveF1Sum(const LoadedTask& task, std::span<const ExampleAnswer> answers) {
  const int positive = PositiveChoice(task.spec.choice());
  SummedFigure figure;
  for (const Prediction& one : PredictionsOf(task, answers)) {
    const double said = one.predicted == positive, is = one.right == positive;
    figure.units.push_back({2 * said * is, said + is});
  }
  figure.value = [](std::span<const double> sum) { return sum[1] > 0 ? sum[0] / sum[1] : 0; };
  return figure;
}

// Returns whether a guess among n choices is expected to get 1 / n of the main figure.
bool HasChance(const v1::TaskSpec& spec) {
  return spec.has_choice() && spec.figures_size() > 0 &&
         IsAccuracy(static_cast<v1::TaskFigure>(spec.figures(0)));
}

v1::TaskMetric MetricOf(const SummedFigure& figure) {
  v1::TaskMetric metric;
  metric.set_value(figure.Value());
  *metric.mutable_interval() =
      Bootstrap(std::ssize(figure.units), {},
                [&](std::span<const int32_t> draws) { return figure.Value(draws); });
  return metric;
}

}  // namespace

bool IsAccuracy(v1::TaskFigure figure) {
  switch (figure) {
    case v1::ACC:
    case v1::ACC_NORM:
    case v1::ACC_PER_TOKEN:
    case v1::ACC_PER_BYTE:
    case v1::ACC_UNCONDITIONAL:
    case v1::EXACT_MATCH:
    case v1::SOLVED:
      return true;
    default:
      return false;
  }
}

SummedFigure SumOf(const LoadedTask& task, v1::TaskFigure figure,
                   std::span<const ExampleAnswer> answers) {
  if (figure == v1::F1) return PositiveF1Sum(task, answers);
  if (figure == v1::MATTHEWS) return MatthewsFigure(PredictionsOf(task, answers));
  if (figure == v1::MACRO_F1) return MacroF1Figure(PredictionsOf(task, answers));
  if (figure == v1::PEARSON) return PearsonFigure(NumbersOf(task, answers));
  if (IsTextFigure(figure)) {
    std::vector<TextPair> pairs;
    for (const ExampleAnswer& answer : answers) {
      pairs.push_back({answer.text, task.examples[static_cast<size_t>(answer.example)].references});
    }
    return TextFigure(figure, pairs);
  }
  std::vector<double> scores;
  for (const ExampleAnswer& answer : answers) {
    scores.push_back(figure == v1::ANSWER_LOSS ? AnswerLoss(task, answer)
                                               : IsRight(task, figure, answer));
  }
  return MeanFigure(scores);
}

int PredictedChoice(v1::TaskFigure figure, const ExampleAnswer& answer,
                    std::span<const std::string> continuations) {
  int best = 0;
  double highest = 0;
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    const double value = FigureOf(figure, answer.choices[i], continuations[i]);
    if (i > 0 && !(value > highest)) continue;
    best = static_cast<int>(i);
    highest = value;
  }
  return best;
}

std::vector<v1::TaskMetric> TaskFigures(const LoadedTask& task,
                                        std::span<const ExampleAnswer> answers) {
  std::vector<v1::TaskMetric> metrics;
  for (const int number : task.spec.figures()) {
    const auto figure = static_cast<v1::TaskFigure>(number);
    metrics.push_back(figure == v1::F1 ? PositiveF1(task, answers)
                                       : MetricOf(SumOf(task, figure, answers)));
    metrics.back().set_name(FigureName(figure));
  }
  return metrics;
}

std::optional<double> ExampleScore(const LoadedTask& task, const ExampleAnswer& answer) {
  const auto figure = static_cast<v1::TaskFigure>(task.spec.figures(0));
  if (IsAccuracy(figure) || figure == v1::ANSWER_F1) return IsRight(task, figure, answer);
  if (figure == v1::ANSWER_LOSS) return AnswerLoss(task, answer);
  return std::nullopt;
}

double ChanceLevel(const LoadedTask& task, std::span<const ExampleAnswer> answers) {
  if (!HasChance(task.spec) || answers.empty()) return 0;
  double sum = 0;
  for (const ExampleAnswer& answer : answers) {
    sum += 1.0 / static_cast<double>(answer.choices.size());
  }
  return sum / static_cast<double>(answers.size());
}

double UsualChance(const v1::TaskSpec& spec) {
  if (!HasChance(spec)) return 0;
  const int usual = spec.choice().usual_choices() > 0 ? spec.choice().usual_choices()
                                                      : spec.choice().choices_size();
  return usual > 0 ? 1.0 / usual : 0;
}

}  // namespace braid
