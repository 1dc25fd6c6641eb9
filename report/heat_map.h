// Shaded cells, such as routing weights by domain and expert.
#ifndef BRAID_REPORT_HEAT_MAP_H_
#define BRAID_REPORT_HEAT_MAP_H_

#include <string>
#include <vector>

namespace braid {

// Cells [row][column], shaded from `low` (transparent) to `high` (full).
struct HeatMap {
  std::string description;
  std::string column_label;
  std::vector<std::string> rows;
  int num_columns = 0;
  std::vector<std::vector<double>> values;
  double low = 0;
  double high = 1;  // larger values have the shade of this one
  // Name of a column in tooltips.
  std::string column_name = "expert";
};
std::string RenderHeatMap(const HeatMap& map);

// Opacity of a full cell. Numbers in the text color have a contrast of 4.5:1 against it (WCAG 2.1,
// 1.4.3) in every theme.
inline constexpr double kFullShade = 0.74;

// The upper end of the shades of a map: the largest value, or the 98th percentile if the largest
// value is more than twice that, so that one outlier does not wash out all other cells.
struct HeatTop {
  double high = 0;
  bool capped = false;  // larger values have the shade of `high`
};
HeatTop HeatTopOf(std::vector<double> values);

// Returns the legend of heat maps from `low` to `high`, with a tick named `mark_name` at `mark`
// unless that is out of range. The legend of a capped scale states that the last shade includes
// larger values.
std::string RenderHeatScale(double low, const HeatTop& top, double mark,
                            const std::string& mark_name);

}  // namespace braid

#endif  // BRAID_REPORT_HEAT_MAP_H_
