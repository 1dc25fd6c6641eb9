// Router weights drawn with characters.
#ifndef BRAID_CLIENT_TERMINAL_ROUTING_BARS_H_
#define BRAID_CLIENT_TERMINAL_ROUTING_BARS_H_

#include <span>
#include <string>
#include <vector>

#include "braid/v1/generation.pb.h"

namespace braid {

// Returns one character per expert whose height is the weight. The full height is the largest
// weight, or 2/E when all weights are smaller, so that uniform routing has half height. Without
// `blocks`, heights are "." and the digits 1 to 9.
std::string RoutingBar(std::span<const double> weights, bool blocks);

// Returns one line per layer: its number, the bar, and the experts with the largest weights.
//
//   layer  2  ▂▁█▁▁▃▁▁  e2 0.51  e5 0.18  e0 0.12
std::vector<std::string> RoutingLines(std::span<const v1::RoutingMixture* const> routing,
                                      bool blocks);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_ROUTING_BARS_H_
