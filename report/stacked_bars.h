// Charts of horizontal bars that are divided into parts.
#ifndef BRAID_REPORT_STACKED_BARS_H_
#define BRAID_REPORT_STACKED_BARS_H_

#include <string>
#include <vector>

namespace braid {

struct StackedBars {
  std::string description;
  std::string x_label;
  std::string unit;                 // follows values in tooltips
  std::vector<std::string> labels;  // one per bar
  std::vector<std::string> parts;   // the color of a part is its index
  // [label][part]; values that are not positive and finite are left out.
  std::vector<std::vector<double>> values;
  int digits = 1;
  // Draws the last part, the remainder, in gray.
  bool neutral_last = false;
  int width = 640;
  // CSS classes of the bars; may be empty.
  std::vector<std::string> css_classes = {};
};

// Returns the chart twice, for wide and for narrow pages, under a legend of the parts; "" if no
// value is positive.
std::string RenderStackedBars(StackedBars bars);

}  // namespace braid

#endif  // BRAID_REPORT_STACKED_BARS_H_
