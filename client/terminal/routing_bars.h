// Routing weights as characters.
#ifndef BRAID_CLIENT_TERMINAL_ROUTING_BARS_H_
#define BRAID_CLIENT_TERMINAL_ROUTING_BARS_H_

#include <span>
#include <string>
#include <vector>

#include "braid/v1/generation.pb.h"

namespace braid {

// One character for each expert, its height the weight: full at the largest, or at twice 1/E
// where none is as large, so that even routing is half high. "." and digits 1 to 9 without
// `blocks`.
std::string RoutingBar(std::span<const double> weights, bool blocks);

// One line a layer: its number, the bar, and the experts with the largest weights.
//
//   layer  2  ▂▁█▁▁▃▁▁  e2 0.51  e5 0.18  e0 0.12
std::vector<std::string> RoutingLines(std::span<const v1::RoutingMixture* const> routing,
                                      bool blocks);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_ROUTING_BARS_H_
