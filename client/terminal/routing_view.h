// A routing analysis as text.
#ifndef BRAID_CLIENT_TERMINAL_ROUTING_VIEW_H_
#define BRAID_CLIENT_TERMINAL_ROUTING_VIEW_H_

#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"

namespace braid {

struct RoutingViewOptions {
  // Characters of one cell, from no weight to the largest, instead of block shades.
  bool ascii = false;
  // The texts that excite each expert most, too.
  bool texts = false;
  int width = 80;
};

// Lines of at most `width` columns (80 or more): of each layer divergence, entropy,
// effective experts and a heat map of domains by experts, all maps on one scale. Of
// more experts than columns fit, neighbours share one, which shows the largest.
std::vector<std::string> RoutingLines(const v1::RoutingAnalysis& analysis,
                                      const RoutingViewOptions& options);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_ROUTING_VIEW_H_
