// Forest plots: effects with their intervals in rows on a common scale with a line at zero.
#ifndef BRAID_REPRODUCE_FOREST_PLOT_H_
#define BRAID_REPRODUCE_FOREST_PLOT_H_

#include <string>
#include <vector>

#include "reproduce/claim.h"

namespace braid {

struct ForestRow {
  ClaimPart part = {};
  // Consecutive rows of the same group share a heading; none if the name is empty.
  std::string group = {};
};

// A plot; all rows must have the same unit.
struct ForestPlot {
  std::string description = {};
  std::string x_label = {};
  std::vector<ForestRow> rows = {};
};

// Returns the plot twice, for wide and for narrow pages; "" if no row has an effect. A row shows
//   - the effect in the shape of its verdict (verdict_mark.h), or as a disc if it is not judged,
//   - its interval, extended by a dotted line for the allowance of one seed,
//   - the values of single seeds as small rings below it,
//   - the margin of its rule as a shaded strip,
// or the text "not measured".
std::string RenderForestPlot(const ForestPlot& plot);

// Symbols that only some plots have.
struct ForestKey {
  bool allowance = false;
  bool single_seeds = false;
};
// Returns the meaning of the symbols as HTML.
std::string RenderForestKey(const ForestKey& key);

}  // namespace braid

#endif  // BRAID_REPRODUCE_FOREST_PLOT_H_
