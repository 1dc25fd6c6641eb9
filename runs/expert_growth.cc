#include "runs/expert_growth.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

absl::Status CheckGrowth(bool good, absl::string_view field, const absl::AlphaNum& got,
                         const std::string& expected) {
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("growth.", field, ": got ", got, ", expected ", expected));
}

}  // namespace

bool Grows(const v1::GrowthConfig& growth) {
  return growth.first() != 0 || growth.has_last() || growth.has_until();
}

absl::Status ResolveGrowth(v1::RoutingConfig* routing, v1::GrowthConfig* growth, bool may_outlast) {
  FillStatedDefaults(growth);
  RETURN_IF_ERROR(CheckGrowth(
      routing->router() == v1::TOKEN_CHOICE, "first", growth->first(),
      absl::StrCat("model.routing.router: TOKEN_CHOICE, not ", v1::Router_Name(routing->router()),
                   ", to let the active experts grow")));
  const bool pooled = routing->token().has_document_pool();
  const int experts = pooled ? routing->token().document_pool() : routing->num_experts();
  const char* const limit = pooled ? "routing.token.document_pool" : "the number of experts";
  if (!growth->has_last()) growth->set_last(experts);
  RETURN_IF_ERROR(CheckGrowth(growth->first() >= 1 && growth->first() <= experts, "first",
                              growth->first(), absl::StrCat("1 to ", limit, ", ", experts)));
  RETURN_IF_ERROR(CheckGrowth(
      growth->last() >= growth->first() && growth->last() <= experts, "last", growth->last(),
      absl::StrCat(growth->first(), " (growth.first) to ", experts, ", ", limit)));
  const double until = growth->until();
  const bool fits = std::isfinite(until) && until > 0 && (until <= 1 || may_outlast);
  RETURN_IF_ERROR(CheckGrowth(fits, "until", until, "more than 0 and at most 1"));
  routing->mutable_token()->set_active_experts(growth->last());
  return absl::OkStatus();
}

ExpertGrowth GrowthOf(const v1::GrowthConfig& resolved, int64_t num_steps) {
  const double steps = resolved.until() * static_cast<double>(num_steps);
  return {.first = resolved.first(),
          .last = resolved.last(),
          .steps = static_cast<int64_t>(std::ceil(steps - 1e-9))};
}

int ActiveExperts(const ExpertGrowth& growth, int64_t step) {
  const int64_t steps = std::max<int64_t>(growth.steps, 1);
  // Long after a short growth the quotient below would not fit into an int.
  if (step >= steps) return growth.last;
  const double grown =
      (growth.last - growth.first) * static_cast<double>(step) / static_cast<double>(steps);
  return growth.first + static_cast<int>(std::nearbyint(grown));
}

std::map<int, int64_t> StepsByActiveExperts(const ExpertGrowth& growth, int64_t num_steps) {
  std::map<int, int64_t> steps;
  int64_t begin = 0;
  for (int active = growth.first; active <= growth.last && begin < num_steps; ++active) {
    const auto rest = std::views::iota(begin, num_steps);
    const auto end = std::ranges::partition_point(
        rest, [&](int64_t step) { return ActiveExperts(growth, step) <= active; });
    const int64_t count = end - rest.begin();
    if (count > 0) steps[active] = count;
    begin += count;
  }
  return steps;
}

}  // namespace braid
