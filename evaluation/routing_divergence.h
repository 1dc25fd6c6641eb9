// How differently domains are routed: information of discrete distributions.
#ifndef BRAID_EVALUATION_ROUTING_DIVERGENCE_H_
#define BRAID_EVALUATION_ROUTING_DIVERGENCE_H_

#include <span>
#include <vector>

namespace braid {

// -sum w ln w in nats, over the positive weights.
double Entropy(std::span<const double> weights);

// Generalised Jensen-Shannon divergence in nats, every distribution alike:
//
//   H(mean of the distributions) - mean of H(distribution)
//
// 0 when all are equal (or there are fewer than two), at most ln of their number
// and of their length. Lin, "Divergence measures based on the Shannon entropy",
// 1991, section IV. Requires equal lengths.
double JensenShannonDivergence(std::span<const std::vector<double>> distributions);

}  // namespace braid

#endif  // BRAID_EVALUATION_ROUTING_DIVERGENCE_H_
