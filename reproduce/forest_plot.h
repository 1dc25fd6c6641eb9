// Effects with their intervals, one below the other on one scale with its zero.
#ifndef BRAID_REPRODUCE_FOREST_PLOT_H_
#define BRAID_REPRODUCE_FOREST_PLOT_H_

#include <string>
#include <vector>

#include "reproduce/claim.h"

namespace braid {

struct ForestRow {
  ClaimPart part = {};
  // Rows of one group follow each other under its name; without a name, under none.
  std::string group = {};
};

// All rows are of one unit.
struct ForestPlot {
  std::string description = {};
  std::string x_label = {};
  std::vector<ForestRow> rows = {};
};

// Twice, for wide and for narrow pages. A row has the effect in the shape of its verdict
// (verdict_mark.h; a disc where none is judged), its interval, the values of single seeds as small
// rings below it, what is added to an interval of one seed as dots, and the margin of its rule as a
// shaded strip. A row that was not measured says so. Empty when no row has an effect.
std::string RenderForestPlot(const ForestPlot& plot);

// Signs that some plots have.
struct ForestKey {
  bool allowance = false;
  bool single_seeds = false;
};
// What the signs mean, as HTML.
std::string RenderForestKey(const ForestKey& key);

}  // namespace braid

#endif  // BRAID_REPRODUCE_FOREST_PLOT_H_
