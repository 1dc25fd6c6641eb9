#include "evaluation/statistics/paired_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "evaluation/statistics/collapsed_strata.h"
#include "evaluation/statistics/resampling.h"
#include "evaluation/statistics/student_t.h"

namespace braid {
namespace {

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double RatioOf(const RatioTerm& term, std::span<const int32_t> draws) {
  double numerator = 0;
  double denominator = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    numerator += draws[i] * term.numerators[i];
    denominator += draws[i] * term.denominators[i];
  }
  return term.coefficient * numerator / denominator;
}

double EffectOf(const SeedMeasurement& measurement, const Draws& draws) {
  double effect = 0;
  for (size_t s = 0; s < measurement.size(); ++s) {
    for (const RatioTerm& term : measurement[s].terms) effect += RatioOf(term, draws[s]);
  }
  return effect;
}

ResamplingPlan PlanOf(const SeedMeasurement& measurement) {
  ResamplingPlan plan = {.left_out = 1};
  for (const Stratum& stratum : measurement) plan.units.push_back(stratum.num_units());
  return plan;
}

// Returns the effect of each resample of units, averaged over seeds, ascending.
std::vector<double> ResampledEffects(std::span<const SeedMeasurement> seeds,
                                     const PairedBootstrapOptions& options) {
  ResamplingPlan plan = PlanOf(seeds.front());
  plan.samples = options.samples;
  plan.seed = options.seed;
  return ResampledValues(plan, [&](const Draws& draws) {
    double sum = 0;
    for (const SeedMeasurement& seed : seeds) sum += EffectOf(seed, draws);
    return sum / static_cast<double>(seeds.size());
  });
}

double StandardErrorOfMean(std::span<const double> values) {
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

// Returns a quantile of the distribution of a random element of `sorted` plus `scale` times
// Student's t, by bisection.
double MixtureQuantile(std::span<const double> sorted, double scale, int64_t degrees,
                       double share) {
  if (scale == 0) return SortedQuantile(sorted, share);
  // Wider than any confidence in use: with one degree of freedom, 99.99 % are within 6400.
  double low = sorted.front() - 1e4 * scale;
  double high = sorted.back() + 1e4 * scale;
  for (int i = 0; i < 60; ++i) {
    const double middle = std::midpoint(low, high);
    double below = 0;
    for (const double value : sorted) below += StudentCdf((middle - value) / scale, degrees);
    (below < share * static_cast<double>(sorted.size()) ? low : high) = middle;
  }
  return std::midpoint(low, high);
}

void SetInterval(std::span<const double> sorted, const PairedBootstrapOptions& options,
                 EffectEstimate* estimate) {
  const int64_t degrees = std::max<int64_t>(estimate->by_seed.size(), 2) - 1;
  const double scale = estimate->by_seed.size() < 2 ? 0 : StandardErrorOfMean(estimate->by_seed);
  const double tail = (1 - options.confidence) / 2;
  estimate->low = MixtureQuantile(sorted, scale, degrees, tail);
  estimate->high = MixtureQuantile(sorted, scale, degrees, 1 - tail);
  estimate->has_interval = true;
}

void CheckSame(const SeedMeasurement& first, const SeedMeasurement& other) {
  BRAID_CHECK(first.size() == other.size()) << first.size() << " strata and " << other.size();
  for (size_t s = 0; s < first.size(); ++s) {
    BRAID_CHECK(first[s].num_units() == other[s].num_units())
        << "stratum " << s << ": " << first[s].num_units() << " and " << other[s].num_units();
  }
}

int64_t CountResampled(const SeedMeasurement& measurement) {
  int64_t units = 0;
  for (const Stratum& stratum : measurement) {
    if (stratum.num_units() > 1) units += stratum.num_units();
  }
  return units;
}

}  // namespace

int64_t Stratum::num_units() const {
  return terms.empty() ? 0 : static_cast<int64_t>(terms.front().numerators.size());
}

double EffectOf(const SeedMeasurement& measurement) {
  return EffectOf(measurement, EveryUnitOnce(PlanOf(measurement)));
}

EffectEstimate EstimateEffect(std::span<const SeedMeasurement> seeds,
                              const PairedBootstrapOptions& options) {
  BRAID_CHECK(!seeds.empty()) << "an effect requires at least one seed";
  EffectEstimate estimate;
  for (const SeedMeasurement& seed : seeds) {
    CheckSame(seeds.front(), seed);
    estimate.by_seed.push_back(EffectOf(seed));
  }
  estimate.effect = Mean(estimate.by_seed);
  const std::vector<SeedMeasurement> collapsed = CollapseSingleUnits(seeds);
  estimate.num_units = CountResampled(collapsed.front());
  if (estimate.num_units == 0) return EstimateOverSeeds(estimate.by_seed, options);
  const std::vector<double> resampled = ResampledEffects(collapsed, options);
  if (!resampled.empty()) SetInterval(resampled, options, &estimate);
  return estimate;
}

EffectEstimate EstimateOverSeeds(std::span<const double> by_seed,
                                 const PairedBootstrapOptions& options) {
  BRAID_CHECK(!by_seed.empty()) << "an effect requires at least one seed";
  EffectEstimate estimate;
  estimate.by_seed.assign(by_seed.begin(), by_seed.end());
  estimate.effect = Mean(by_seed);
  const double center[] = {estimate.effect};
  if (by_seed.size() > 1) SetInterval(center, options, &estimate);
  return estimate;
}

std::vector<double> BlockSums(std::span<const double> values, int64_t size) {
  BRAID_CHECK(size >= 1) << "blocks of " << size;
  std::vector<double> sums;
  for (size_t begin = 0; begin < values.size(); begin += size) {
    const auto block = values.subspan(begin, std::min<size_t>(size, values.size() - begin));
    sums.push_back(std::accumulate(block.begin(), block.end(), 0.0));
  }
  return sums;
}

}  // namespace braid
