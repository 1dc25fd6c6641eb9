// The values that a line chart shows at the position of the pointer.
#ifndef BRAID_REPORT_LINE_READOUT_H_
#define BRAID_REPORT_LINE_READOUT_H_

#include <string>

#include "report/line_chart.h"
#include "report/svg_frame.h"

namespace braid {

// Returns adjacent strips that cover the plot. On :hover each shows a vertical line and the value
// of each series that is nearest to it. Strips without values are left out.
std::string RenderReadout(const LineChart& chart, const PlotScale& x, const PlotScale& y);

}  // namespace braid

#endif  // BRAID_REPORT_LINE_READOUT_H_
