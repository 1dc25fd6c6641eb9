// A routing analysis as text for a terminal.
#ifndef BRAID_CLIENT_TERMINAL_ROUTING_VIEW_H_
#define BRAID_CLIENT_TERMINAL_ROUTING_VIEW_H_

#include <string>
#include <vector>

namespace braid::v1 {
class RoutingAnalysis;
}  // namespace braid::v1

namespace braid {

struct RoutingViewOptions {
  // Shades with ASCII characters instead of block characters.
  bool ascii = false;
  // Includes the top-activating segments of each expert.
  bool texts = false;
  int width = 80;
};

// Returns lines of at most `width` columns, which must be at least 80. For each layer: divergence,
// entropy, effective experts and a heat map of domains by experts; all maps use the same scale.
// When there are more experts than columns, adjacent experts share a column, which shows their
// maximum.
std::vector<std::string> RoutingLines(const v1::RoutingAnalysis& analysis,
                                      const RoutingViewOptions& options);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_ROUTING_VIEW_H_
