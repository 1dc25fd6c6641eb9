// Shaded cells, such as routing weights by domain and expert.
#ifndef BRAID_REPORT_HEAT_MAP_H_
#define BRAID_REPORT_HEAT_MAP_H_

#include <string>
#include <vector>

namespace braid {

// Cells [row][column], shaded from `low` (clear) to `high` (full).
struct HeatMap {
  std::string description;
  std::string column_label;
  std::vector<std::string> rows;
  int num_columns = 0;
  std::vector<std::vector<double>> values;
  double low = 0;
  double high = 1;  // larger values look like this one
  // What a column is called on hover.
  std::string column_name = "expert";
};
std::string RenderHeatMap(const HeatMap& map);

// Opacity of a full cell: numbers in the colour of text stand out from it by 4.5:1
// (WCAG 2.1, 1.4.3) in every theme.
inline constexpr double kFullShade = 0.74;

// Where the shades of a map end: at the largest value, or, when that is more than twice the 98th
// percentile, there, so that one outlier does not wash out all others.
struct HeatTop {
  double high = 0;
  bool capped = false;  // larger values look like `high`
};
HeatTop HeatTopOf(std::vector<double> values);

// What the shades of heat maps from `low` to `high` mean, with a tick at `mark`, which `mark_name`
// explains; none when it is outside. Of a capped scale the last shade is that of larger values too,
// and said so.
std::string RenderHeatScale(double low, const HeatTop& top, double mark,
                            const std::string& mark_name);

}  // namespace braid

#endif  // BRAID_REPORT_HEAT_MAP_H_
