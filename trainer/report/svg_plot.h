// Plots as inline SVG: pure functions from values to markup. Colours are CSS
// classes (c0 ... c7) that the page defines for light and dark; values show up on
// hover. Values that are not finite are left out.
#ifndef BRAID_TRAINER_REPORT_SVG_PLOT_H_
#define BRAID_TRAINER_REPORT_SVG_PLOT_H_

#include "trainer/report/bar_chart.h"
#include "trainer/report/dot_chart.h"
#include "trainer/report/heat_map.h"
#include "trainer/report/line_chart.h"
#include "trainer/report/plot_series.h"
#include "trainer/report/stacked_bars.h"
#include "trainer/report/svg_frame.h"
#include "trainer/report/time_line.h"

#endif  // BRAID_TRAINER_REPORT_SVG_PLOT_H_
