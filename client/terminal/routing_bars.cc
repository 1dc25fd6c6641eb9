#include "client/terminal/routing_bars.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr const char* kDigits[] = {".", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
constexpr size_t kNumNamed = 3;

// Returns the experts with the largest weights; ties are broken by the lower number.
std::vector<size_t> Largest(std::span<const double> weights) {
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  order.resize(std::min(order.size(), kNumNamed));
  return order;
}

}  // namespace

std::string RoutingBar(std::span<const double> weights, bool blocks) {
  if (weights.empty()) return "";
  const double even = 1 / static_cast<double>(weights.size());
  const double full = std::max(*std::ranges::max_element(weights), 2 * even);
  const int levels = blocks ? 8 : 9;
  std::string bar;
  for (const double weight : weights) {
    // The lowest block stands for zero weight, so that every expert is visible.
    const int level = std::clamp(static_cast<int>(weight / full * levels + 0.5), 0, levels);
    bar += blocks ? kBlocks[std::max(level, 1) - 1] : kDigits[level];
  }
  return bar;
}

std::vector<std::string> RoutingLines(std::span<const v1::RoutingMixture* const> routing,
                                      bool blocks) {
  std::vector<std::string> lines;
  for (const v1::RoutingMixture* const mixture : routing) {
    const std::span<const double> weights(mixture->weights().data(),
                                          static_cast<size_t>(mixture->weights_size()));
    std::string line =
        absl::StrFormat("layer %2d  %s", mixture->layer(), RoutingBar(weights, blocks));
    for (const size_t expert : Largest(weights)) {
      absl::StrAppendFormat(&line, "  e%d %.2f", expert, weights[expert]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace braid
