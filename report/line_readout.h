// What a line chart says at the place that the pointer or a finger rests on.
#ifndef BRAID_REPORT_LINE_READOUT_H_
#define BRAID_REPORT_LINE_READOUT_H_

#include <string>

#include "report/line_chart.h"
#include "report/svg_frame.h"

namespace braid {

// Strips side by side over the whole plot; each shows on :hover a vertical line and the values
// that the series have nearest to it. Strips without any value are left out.
std::string RenderReadout(const LineChart& chart, const PlotScale& x, const PlotScale& y);

}  // namespace braid

#endif  // BRAID_REPORT_LINE_READOUT_H_
