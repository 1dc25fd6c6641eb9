// Measures how differently domains are routed: entropies of discrete distributions.
#ifndef BRAID_EVALUATION_STATISTICS_ROUTING_DIVERGENCE_H_
#define BRAID_EVALUATION_STATISTICS_ROUTING_DIVERGENCE_H_

#include <span>
#include <vector>

namespace braid {

// Returns -sum w ln w in nats, over the positive weights.
double Entropy(std::span<const double> weights);

// Returns the generalized Jensen-Shannon divergence in nats, with equal weights:
//
//   H(mean of the distributions) - mean of H(distribution)
//
// It is 0 when all are equal (or there are fewer than two), and at most the logarithm of their
// number and of their length (Lin, "Divergence measures based on the Shannon entropy", 1991,
// section IV). Requires equal lengths.
double JensenShannonDivergence(std::span<const std::vector<double>> distributions);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_ROUTING_DIVERGENCE_H_
