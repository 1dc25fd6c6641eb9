// Horizontal bars that are made of parts.
#ifndef BRAID_REPORT_STACKED_BARS_H_
#define BRAID_REPORT_STACKED_BARS_H_

#include <string>
#include <vector>

namespace braid {

struct StackedBars {
  std::string description;
  std::string x_label;
  std::string unit;                 // behind values on hover
  std::vector<std::string> labels;  // one a bar
  std::vector<std::string> parts;   // their colours are their places
  // [label][part]; what is not positive and finite is left out.
  std::vector<std::vector<double>> values;
  int digits = 1;
  // The last part is what is left over: grey.
  bool neutral_last = false;
  int width = 640;
  // CSS classes of the bars; none when empty.
  std::vector<std::string> css_classes = {};
};

// Twice, for wide and for narrow pages, under a legend of the parts. Empty when nothing is
// positive.
std::string RenderStackedBars(StackedBars bars);

}  // namespace braid

#endif  // BRAID_REPORT_STACKED_BARS_H_
