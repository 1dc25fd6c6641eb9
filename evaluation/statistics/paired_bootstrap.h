// Confidence intervals of effects that were measured with several seeds on the same windows.
//
// Two things vary: the text that happens to be held out, and the seed. Windows are shared by
// all seeds, so the two are crossed, not nested: drawing windows anew for every seed would count
// each window once a seed. Here
//   * blocks of windows are drawn with replacement within each domain, and the same draw is
//     applied to every arm and every seed (crossed or "pigeonhole" bootstrap; Owen, The
//     pigeonhole bootstrap, Annals of Applied Statistics 2007). n - 1 of n blocks are drawn,
//     which makes the variance of a mean unbiased for small n (Rao and Wu, JASA 1988). Domains
//     of one block are drawn as blocks of one stratum (collapsed_strata.h);
//   * seeds, of which there are about three, are not resampled: three values have ten
//     different resamples, whose percentiles cover far too little. Their mean has the error
//     s / sqrt(n) T with n - 1 degrees of freedom.
// The interval is that of the sum of both errors. With one seed it holds for that seed alone.
#ifndef BRAID_EVALUATION_STATISTICS_PAIRED_BOOTSTRAP_H_
#define BRAID_EVALUATION_STATISTICS_PAIRED_BOOTSTRAP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// coefficient * sum(numerators) / sum(denominators).
struct RatioTerm {
  double coefficient = 1;
  // [units], such as differences of nats and numbers of tokens.
  std::vector<double> numerators = {};
  std::vector<double> denominators = {};
};

// Units that can stand for each other, such as the blocks of windows of one domain. A draw of
// units holds for all terms.
struct Stratum {
  std::vector<RatioTerm> terms = {};

  int64_t num_units() const;
};

// What one seed measured: the effect is the sum of all terms of all strata.
using SeedMeasurement = std::vector<Stratum>;

double EffectOf(const SeedMeasurement& measurement);

struct PairedBootstrapOptions {
  int64_t samples = 4000;
  uint64_t seed = 0;
  double confidence = 0.95;
};

struct EffectEstimate {
  // Mean over seeds.
  double effect = 0;
  // Meaningless without has_interval.
  double low = 0;
  double high = 0;
  bool has_interval = false;
  // One for each seed.
  std::vector<double> by_seed = {};
  // Blocks that were resampled; 0 when only seeds vary.
  int64_t num_units = 0;
};

// Requires at least one seed, and the same strata with the same numbers of units for all. A
// stratum with one unit that no other can be collapsed with keeps it. Without a stratum of two
// units or a second seed there is no interval.
// The same arguments give the same bits.
EffectEstimate EstimateEffect(std::span<const SeedMeasurement> seeds,
                              const PairedBootstrapOptions& options);

// For numbers of which each seed gives one: the interval of the mean by Student's t.
EffectEstimate EstimateOverSeeds(std::span<const double> by_seed,
                                 const PairedBootstrapOptions& options);

// The sums of each `size` consecutive values; the last block may have fewer.
std::vector<double> BlockSums(std::span<const double> values, int64_t size);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_PAIRED_BOOTSTRAP_H_
