#include "evaluation/tasks/task_comparison.h"

#include <cstdint>

#include "base/check.h"
#include "evaluation/statistics/bootstrap.h"
#include "evaluation/tasks/task_figures.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

// Counts the examples that only one of two models gets right; units are 0 or 1.
void CountOnlyRight(const SummedFigure& baseline, const SummedFigure& model,
                    v1::TaskComparison* comparison) {
  for (size_t i = 0; i < model.units.size(); ++i) {
    const double gain = model.units[i][0] - baseline.units[i][0];
    if (gain > 0) comparison->set_num_only_model(comparison->num_only_model() + 1);
    if (gain < 0) comparison->set_num_only_baseline(comparison->num_only_baseline() + 1);
  }
}

}  // namespace

std::vector<v1::TaskComparison> CompareAnswers(const LoadedTask& task,
                                               std::span<const ExampleAnswer> baseline,
                                               std::span<const ExampleAnswer> model) {
  BRAID_CHECK(baseline.size() == model.size()) << baseline.size() << " " << model.size();
  std::vector<v1::TaskComparison> comparisons;
  for (const int number : task.spec.figures()) {
    const auto figure = static_cast<v1::TaskFigure>(number);
    const SummedFigure a = SumOf(task, figure, baseline), b = SumOf(task, figure, model);
    const auto difference = [&](std::span<const int32_t> draws) {
      return b.Value(draws) - a.Value(draws);
    };
    v1::TaskComparison comparison;
    comparison.set_task(task.spec.name());
    comparison.set_metric(FigureName(figure));
    comparison.set_num_examples(static_cast<int64_t>(model.size()));
    comparison.set_difference(difference({}));
    *comparison.mutable_interval() = Bootstrap(std::ssize(b.units), {}, difference);
    if (IsAccuracy(figure)) CountOnlyRight(a, b, &comparison);
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

}  // namespace braid
