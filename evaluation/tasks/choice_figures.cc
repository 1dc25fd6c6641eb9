#include "evaluation/tasks/choice_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace braid {
namespace {

// Sums of the confusion matrix [right, predicted]: those of its rows and columns, and its diagonal.
struct Confusion {
  std::span<const double> right, predicted, diagonal;
  double total = 0;

  explicit Confusion(std::span<const double> sums) {
    const size_t labels = sums.size() / 3;
    right = sums.first(labels);
    predicted = sums.subspan(labels, labels);
    diagonal = sums.subspan(2 * labels);
    total = std::accumulate(right.begin(), right.end(), 0.0);
  }
};

SummedFigure ConfusionFigure(std::span<const Prediction> predictions,
                             double (*value)(const Confusion&)) {
  int last = 0;
  for (const Prediction& one : predictions) last = std::max({last, one.right, one.predicted});
  const size_t labels = static_cast<size_t>(last) + 1;
  SummedFigure figure;
  for (const Prediction& one : predictions) {
    // Not the whole matrix: a model may have thousands of classes.
    std::vector<double> unit(3 * labels, 0);
    unit[static_cast<size_t>(one.right)] = 1;
    unit[labels + static_cast<size_t>(one.predicted)] = 1;
    if (one.right == one.predicted) unit[2 * labels + static_cast<size_t>(one.right)] = 1;
    figure.units.push_back(std::move(unit));
  }
  figure.value = [value](std::span<const double> sum) { return value(Confusion(sum)); };
  return figure;
}

double Matthews(const Confusion& c) {
  double diagonal = 0, both = 0, right = 0, predicted = 0;
  for (size_t i = 0; i < c.right.size(); ++i) {
    diagonal += c.diagonal[i];
    both += c.right[i] * c.predicted[i];
    right += c.right[i] * c.right[i];
    predicted += c.predicted[i] * c.predicted[i];
  }
  const double square = c.total * c.total;
  const double spread = (square - right) * (square - predicted);
  return spread > 0 ? (diagonal * c.total - both) / std::sqrt(spread) : 0;
}

double MacroF1(const Confusion& c) {
  double sum = 0, labels = 0;
  for (size_t i = 0; i < c.right.size(); ++i) {
    const double both = c.right[i] + c.predicted[i];
    if (both == 0) continue;
    sum += 2 * c.diagonal[i] / both;
    ++labels;
  }
  return labels > 0 ? sum / labels : 0;
}

}  // namespace

SummedFigure MatthewsFigure(std::span<const Prediction> predictions) {
  return ConfusionFigure(predictions, Matthews);
}

SummedFigure MacroF1Figure(std::span<const Prediction> predictions) {
  return ConfusionFigure(predictions, MacroF1);
}

}  // namespace braid
