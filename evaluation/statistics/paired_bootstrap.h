// Confidence intervals of effects measured with several seeds on the same windows.
//
// Two things vary: the text that happens to be held out, and the seed. All seeds share the windows,
// so the two factors are crossed, not nested; drawing windows separately for every seed would count
// each window once per seed. Therefore:
// - Blocks of windows are drawn with replacement within each domain, and the same draw is applied
//   to every arm and every seed (crossed or "pigeonhole" bootstrap; Owen, The pigeonhole bootstrap,
//   Annals of Applied Statistics 2007). n - 1 of n blocks are drawn, which makes the variance of a
//   mean unbiased for small n (Rao and Wu, JASA 1988). Domains of one block are drawn as blocks of
//   one stratum (collapsed_strata.h).
// - Seeds, of which there are about three, are not resampled: three values have ten different
//   resamples, whose percentiles cover far too little. The error of their mean is s / sqrt(n) T
//   with n - 1 degrees of freedom.
//
// The interval is that of the sum of both errors. With one seed it holds for that seed only.
#ifndef BRAID_EVALUATION_STATISTICS_PAIRED_BOOTSTRAP_H_
#define BRAID_EVALUATION_STATISTICS_PAIRED_BOOTSTRAP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// The term coefficient * sum(numerators) / sum(denominators) of an effect.
struct RatioTerm {
  double coefficient = 1;
  // [units], such as differences of nats and numbers of tokens.
  std::vector<double> numerators = {};
  std::vector<double> denominators = {};
};

// Exchangeable units, such as the blocks of windows of one domain. A draw of units applies to all
// terms.
struct Stratum {
  std::vector<RatioTerm> terms = {};

  int64_t num_units() const;
};

// The measurement of one seed. The effect is the sum of all terms of all strata.
using SeedMeasurement = std::vector<Stratum>;

// Returns the effect with every unit counted once.
double EffectOf(const SeedMeasurement& measurement);

struct PairedBootstrapOptions {
  int64_t samples = 4000;
  uint64_t seed = 0;
  double confidence = 0.95;
};

struct EffectEstimate {
  // Mean over seeds.
  double effect = 0;
  // Undefined without has_interval.
  double low = 0;
  double high = 0;
  bool has_interval = false;
  // The effect of each seed.
  std::vector<double> by_seed = {};
  // Number of blocks that were resampled; 0 when only seeds vary.
  int64_t num_units = 0;
};

// Estimates an effect. Requires at least one seed, and the same strata with the same numbers of
// units for all seeds. A stratum with one unit that cannot be collapsed is not resampled. There is
// no interval without a stratum of two units or a second seed. The same arguments give the same
// bits.
EffectEstimate EstimateEffect(std::span<const SeedMeasurement> seeds,
                              const PairedBootstrapOptions& options);

// Estimates a quantity with one value per seed: the interval of the mean by Student's t.
EffectEstimate EstimateOverSeeds(std::span<const double> by_seed,
                                 const PairedBootstrapOptions& options);

// Returns the sums of each `size` consecutive values; the last block may have fewer.
std::vector<double> BlockSums(std::span<const double> values, int64_t size);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_PAIRED_BOOTSTRAP_H_
