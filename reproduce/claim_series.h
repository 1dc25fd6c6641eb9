// Curves and rows of numbers that are told beside a claim.
#ifndef BRAID_REPRODUCE_CLAIM_SERIES_H_
#define BRAID_REPRODUCE_CLAIM_SERIES_H_

#include <optional>
#include <string>
#include <vector>

namespace braid {

enum class SeriesShape {
  // Values over x.
  kCurve,
  // A value a label.
  kBars,
  // A row of a heat map: a value a column.
  kHeatRow,
};

// What series are drawn on; those of one figure together.
struct SeriesFigure {
  std::string name = {};
  SeriesShape shape = SeriesShape::kCurve;
  std::string x_label = {};
  std::string y_label = {};
  // The y axis of curves holds these at least.
  std::optional<double> y_min = {};
  std::optional<double> y_max = {};
};

struct ClaimSeries {
  std::string name = {};
  // Of bars and columns, one a value.
  std::vector<std::string> labels = {};
  std::vector<double> values = {};
  // Of curves, ascending, one a value.
  std::vector<double> x = {};
  SeriesFigure figure = {};
};

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIM_SERIES_H_
