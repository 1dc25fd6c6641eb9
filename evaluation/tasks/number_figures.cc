#include "evaluation/tasks/number_figures.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace braid {
namespace {

// Smallest share of n sum(x^2) that n sum(x^2) - sum(x)^2 must have to be more than rounding.
constexpr double kLeastSpread = 1e-12;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns n sum(x^2) - sum(x)^2, which is n^2 times the variance; 0 for rounding errors.
double Spread(double n, double sum, double squares) {
  const double spread = n * squares - sum * sum;
  return spread > kLeastSpread * n * squares ? spread : 0;
}

}  // namespace

SummedFigure PearsonFigure(std::span<const NumberPair> pairs) {
  SummedFigure figure;
  if (pairs.empty()) return figure;
  std::vector<double> right, predicted;
  for (const NumberPair& pair : pairs) {
    right.push_back(pair.right);
    predicted.push_back(pair.predicted);
  }
  // Sums of squares of numbers far from zero would cancel. Equal numbers all become exactly 0.
  const double right_center = Median(std::move(right));
  const double predicted_center = Median(std::move(predicted));
  for (const NumberPair& pair : pairs) {
    const double x = pair.right - right_center, y = pair.predicted - predicted_center;
    figure.units.push_back({1, x, y, x * x, y * y, x * y});
  }
  figure.value = [](std::span<const double> sum) {
    const double root =
        std::sqrt(Spread(sum[0], sum[1], sum[3])) * std::sqrt(Spread(sum[0], sum[2], sum[4]));
    return root > 0 ? (sum[0] * sum[5] - sum[1] * sum[2]) / root : 0;
  };
  return figure;
}

}  // namespace braid
