#include "evaluation/statistics/collapsed_strata.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace braid {
namespace {

// Indices of strata that are collapsed into one.
using Group = std::vector<size_t>;

double CoefficientOfUnit(const RatioTerm& term) {
  return term.coefficient /
         std::accumulate(term.denominators.begin(), term.denominators.end(), 0.0);
}

bool SameForm(const RatioTerm& a, const RatioTerm& b) {
  // Coefficients are quotients and sums of a few numbers, whose rounding errors are far smaller.
  const double x = CoefficientOfUnit(a);
  const double y = CoefficientOfUnit(b);
  return std::abs(x - y) <= 1e-9 * std::abs(x);
}

bool CanJoin(std::span<const SeedMeasurement> seeds, size_t a, size_t b) {
  return std::ranges::all_of(seeds, [&](const SeedMeasurement& seed) {
    return std::ranges::equal(seed[a].terms, seed[b].terms, SameForm);
  });
}

std::vector<Group> GroupsOfSingleUnits(std::span<const SeedMeasurement> seeds) {
  std::vector<Group> groups;
  for (size_t s = 0; s < seeds.front().size(); ++s) {
    if (seeds.front()[s].num_units() != 1) continue;
    const auto group = std::ranges::find_if(
        groups, [&](const Group& other) { return CanJoin(seeds, other.front(), s); });
    if (group != groups.end()) {
      group->push_back(s);
    } else {
      groups.push_back({s});
    }
  }
  return groups;
}

// Adds to `group` the smallest compatible stratum of several units, the first of equals.
void JoinSmallest(std::span<const SeedMeasurement> seeds, Group* group) {
  const SeedMeasurement& strata = seeds.front();
  size_t smallest = strata.size();
  for (size_t s = 0; s < strata.size(); ++s) {
    if (strata[s].num_units() < 2 || !CanJoin(seeds, group->front(), s)) continue;
    if (smallest == strata.size() || strata[s].num_units() < strata[smallest].num_units()) {
      smallest = s;
    }
  }
  if (smallest < strata.size()) group->push_back(smallest);
}

void Append(const RatioTerm& from, RatioTerm* to) {
  to->coefficient += from.coefficient;
  to->numerators.insert(to->numerators.end(), from.numerators.begin(), from.numerators.end());
  to->denominators.insert(to->denominators.end(), from.denominators.begin(),
                          from.denominators.end());
}

// Returns the measurement with each group at the position of its first stratum.
SeedMeasurement Joined(SeedMeasurement measurement, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    Stratum& joined = measurement[group.front()];
    for (const size_t s : std::span(group).subspan(1)) {
      for (size_t t = 0; t < measurement[s].terms.size(); ++t) {
        Append(measurement[s].terms[t], &joined.terms[t]);
      }
      measurement[s].terms.clear();
    }
  }
  std::erase_if(measurement, [](const Stratum& stratum) { return stratum.terms.empty(); });
  return measurement;
}

}  // namespace

std::vector<SeedMeasurement> CollapseSingleUnits(std::span<const SeedMeasurement> seeds) {
  std::vector<Group> groups = GroupsOfSingleUnits(seeds);
  for (Group& group : groups) {
    if (group.size() == 1) JoinSmallest(seeds, &group);
  }
  std::vector<SeedMeasurement> collapsed;
  for (const SeedMeasurement& seed : seeds) collapsed.push_back(Joined(seed, groups));
  return collapsed;
}

}  // namespace braid
