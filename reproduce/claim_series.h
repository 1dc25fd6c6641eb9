// Curves and rows of numbers that accompany a claim.
#ifndef BRAID_REPRODUCE_CLAIM_SERIES_H_
#define BRAID_REPRODUCE_CLAIM_SERIES_H_

#include <optional>
#include <string>
#include <vector>

namespace braid {

enum class SeriesShape {
  // Values over x.
  kCurve,
  // One value per label.
  kBars,
  // A row of a heat map: one value per column.
  kHeatRow,
};

// The figure in which a series is drawn; series of the same figure are drawn together.
struct SeriesFigure {
  std::string name = {};
  SeriesShape shape = SeriesShape::kCurve;
  std::string x_label = {};
  std::string y_label = {};
  // Values that the y axis of curves includes in any case.
  std::optional<double> y_min = {};
  std::optional<double> y_max = {};
};

struct ClaimSeries {
  std::string name = {};
  // Labels of bars and columns, one per value.
  std::vector<std::string> labels = {};
  std::vector<double> values = {};
  // x of curves, ascending, one per value.
  std::vector<double> x = {};
  SeriesFigure figure = {};
};

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIM_SERIES_H_
