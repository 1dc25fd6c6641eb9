// Plots as inline SVG: pure functions from values to markup. Colors are CSS classes (c0 ... c7),
// which the page defines for light and dark. Tooltips show the values. Values that are not finite
// are left out.
#ifndef BRAID_REPORT_SVG_PLOT_H_
#define BRAID_REPORT_SVG_PLOT_H_

#include "report/heat_map.h"
#include "report/interval_chart.h"
#include "report/line_chart.h"
#include "report/plot_series.h"
#include "report/stacked_bars.h"
#include "report/svg_frame.h"
#include "report/time_line.h"

#endif  // BRAID_REPORT_SVG_PLOT_H_
