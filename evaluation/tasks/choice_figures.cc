#include "evaluation/tasks/choice_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace braid {
namespace {

// The confusion matrix [right, predicted] with its sums.
struct Confusion {
  std::vector<double> right, predicted, diagonal;
  double total = 0;

  explicit Confusion(std::span<const double> matrix) {
    const auto labels = static_cast<size_t>(std::lround(std::sqrt(matrix.size())));
    right.assign(labels, 0);
    predicted.assign(labels, 0);
    for (size_t i = 0; i < labels; ++i) {
      for (size_t j = 0; j < labels; ++j) {
        right[i] += matrix[i * labels + j];
        predicted[j] += matrix[i * labels + j];
        total += matrix[i * labels + j];
      }
      diagonal.push_back(matrix[i * labels + i]);
    }
  }
};

SummedFigure ConfusionFigure(std::span<const Prediction> predictions,
                             double (*value)(const Confusion&)) {
  int last = 0;
  for (const Prediction& one : predictions) last = std::max({last, one.right, one.predicted});
  const size_t labels = static_cast<size_t>(last) + 1;
  SummedFigure figure;
  for (const Prediction& one : predictions) {
    std::vector<double> unit(labels * labels, 0);
    unit[static_cast<size_t>(one.right) * labels + static_cast<size_t>(one.predicted)] = 1;
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
