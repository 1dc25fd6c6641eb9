#include "evaluation/router_input.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "model/config/document_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

// Number of tokens shown for a routed token: itself and those before it.
constexpr int64_t kShownTokens = 32;

}  // namespace

std::optional<RouterInput> RouterInputOf(const v1::ModelConfig& resolved, int64_t decision,
                                         std::span<const int64_t> starts) {
  const v1::RoutingConfig& routing = resolved.routing();
  if (RoutesTokens(routing)) {
    return RouterInput{static_cast<int32_t>(decision),
                       std::max<int64_t>(0, decision + 1 - kShownTokens), decision + 1};
  }
  if (decision == 0 && routing.first_segment() == v1::UNIFORM) return std::nullopt;
  if (CutsAtDocuments(routing) && decision > 0) {
    const auto start = std::ranges::lower_bound(starts, decision);
    BRAID_CHECK(start != starts.begin()) << "no segment before " << decision;
    return RouterInput{static_cast<int32_t>(decision), *std::prev(start), decision};
  }
  const int64_t segment = routing.router() == v1::PREFIX ? 0 : std::max<int64_t>(decision - 1, 0);
  const int64_t begin = segment * routing.segment_length();
  const int64_t end =
      CutsAtDocuments(routing) && starts.size() > 1 ? starts[1] : begin + routing.segment_length();
  return RouterInput{static_cast<int32_t>(segment), begin, end};
}

}  // namespace braid
