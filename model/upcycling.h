// Sparse upcycling (arXiv 2405.03133, appendix G.3): turns a dense model into an expert model. If
// the router merges experts, the result computes the same function.
#ifndef BRAID_MODEL_UPCYCLING_H_
#define BRAID_MODEL_UPCYCLING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace braid {

// Returns a new model of configuration `moe`: shared parameters equal those of `dense`, every
// expert is a copy of its layer's dense FFN, routers are initialized from `seed`. It is trained
// with the settings of `dense` (proto Finetuning). With a router that merges experts its loss
// equals that of `dense`, because routing weights sum to 1; expert choice scales outputs by scores
// instead. InvalidArgument when the two shapes differ in more than routing.
absl::StatusOr<std::unique_ptr<LanguageModel>> Upcycle(LanguageModel& dense,
                                                       const v1::ModelConfig& moe, uint64_t seed);

// Returns the name that an expert matrix has in a dense model: "...mlp.experts.gate_proj.weight" ->
// "...mlp.gate_proj.weight". Other names stay.
std::string DenseName(const std::string& name);

// The origin of one parameter of an upcycled model.
struct ParameterOrigin {
  // Index into the dense model's parameters(); -1 for a router.
  int64_t dense_parameter = -1;
  // Number of copies of the dense parameter that the parameter holds: E for expert matrices, else
  // 1. The gradient of each copy is about 1/copies of the original's, so first moments carry over
  // as m / copies and second moments as v / copies^2.
  int copies = 1;
};

// Returns one origin for each of the expert model's parameters().
std::vector<ParameterOrigin> UpcycledOrigins(LanguageModel& dense, LanguageModel& moe);

}  // namespace braid

#endif  // BRAID_MODEL_UPCYCLING_H_
