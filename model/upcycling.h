// Sparse upcycling (arXiv 2405.03133, appendix G.3): a dense model becomes an
// expert model; where experts are merged, one that computes the same function.
#ifndef BRAID_MODEL_UPCYCLING_H_
#define BRAID_MODEL_UPCYCLING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace braid {

// Returns a new model of configuration `moe`: shared parameters equal those of
// `dense`, every expert is a copy of its layer's dense FFN, routers start from
// `seed`. With a router that merges experts its loss equals that of `dense`,
// because routing weights sum to 1; expert choice scales by scores instead.
// InvalidArgument when the two shapes differ in more than routing.
absl::StatusOr<std::unique_ptr<LanguageModel>> Upcycle(LanguageModel& dense,
                                                       const v1::ModelConfig& moe, uint64_t seed);

// Where one parameter of an upcycled model came from.
struct ParameterOrigin {
  // Index into the dense model's parameters(); -1 for a router.
  int64_t dense_parameter = -1;
  // How many copies lie one after the other in the parameter: E for expert
  // matrices, else 1. Each copy's gradient is about 1/copies of the original's,
  // so first moments carry over as m / copies, second ones as v / copies^2.
  int copies = 1;
};

// One origin for each of the expert model's parameters().
std::vector<ParameterOrigin> UpcycledOrigins(LanguageModel& dense, LanguageModel& moe);

}  // namespace braid

#endif  // BRAID_MODEL_UPCYCLING_H_
