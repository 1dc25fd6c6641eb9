// Shaded cells, such as routing weights by domain and expert.
#ifndef BRAID_TRAINER_REPORT_HEAT_MAP_H_
#define BRAID_TRAINER_REPORT_HEAT_MAP_H_

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
  double high = 1;
  // What a column is called on hover.
  std::string column_name = "expert";
};
std::string RenderHeatMap(const HeatMap& map);

// What the shades of heat maps from `low` to `high` mean, with a tick at `mark`, which `mark_name`
// explains; none when it is outside.
std::string RenderHeatScale(double low, double high, double mark, const std::string& mark_name);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_HEAT_MAP_H_
