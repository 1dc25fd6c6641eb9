// The parameters that a run trains (proto Finetuning): defaults and checks, the adapters of a
// model, and the layout of its parameters when only some are trained. Pure functions of the
// configuration.
#ifndef BRAID_MODEL_CONFIG_FINETUNING_CONFIG_H_
#define BRAID_MODEL_CONFIG_FINETUNING_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/config/parameter_layout.h"

namespace braid {

// Returns `asked` with every default filled in, short names of targets and layers counted from 0.
// INVALID_ARGUMENT names the field, what it got and what it expected: a rank above the smaller side
// of a matrix, an unknown target, dropout of adapters of experts, a pattern that
// matches no parameter, a part of an array that is bound as a whole (q, k and v; gate and up), a
// rate, a share or a noise out of range, or experts that recompose cannot put together
// (CheckRecomposable).
absl::StatusOr<v1::Finetuning> ResolveFinetuning(const v1::Finetuning& asked,
                                                 const v1::ModelConfig& resolved);

// Returns whether some parameters are not trained.
inline bool IsPartial(const v1::Finetuning& finetuning) {
  return finetuning.has_lora() || !finetuning.train().empty();
}

// The adapter of one matrix W [out, in].
struct AdapterSpec {
  int layer = 0;
  // q, k, v, o, gate, up or down.
  std::string target;
  // Name of W in ParameterLayout. A name ending in "weight_t" holds W transposed, [in, out].
  std::string matrix;
  // Names of A [rank, in] and B [out, rank].
  std::string a, b;
  int64_t in = 0, out = 0;
  // E where W is [E, out, in]: every expert has its own A and B, which are [E, rank, in] and
  // [E, out, rank]. 0 for a single matrix.
  int64_t experts = 0;

  std::vector<int64_t> a_shape(int64_t rank) const;
  std::vector<int64_t> b_shape(int64_t rank) const;
};

// Returns the adapters of a resolved configuration, by layer and in the order of the targets above;
// none without finetuning.lora.
std::vector<AdapterSpec> AdaptersOf(const v1::ModelConfig& resolved,
                                    const v1::Finetuning& finetuning);

// Returns whether a target is in the FFN: gate, up or down.
bool IsFfnTarget(std::string_view target);

// Returns the factor of B A in W + scale B A.
double AdapterScale(const v1::LoraConfig& resolved);

// Returns the parameters of a model in the order of ParameterLayout, followed by its adapters.
// Offsets of the values: first those without a gradient, then those with one, each in this order;
// gradients have the order of the latter. A starts uniform in +- in^-1/2 and B at zero. The
// parameters of layer mixing, which the weights that a run starts from may lack, are always among
// the latter. Sets the factors of learning_rates.
std::vector<ParameterSpec> FinetunedLayout(const v1::ModelConfig& resolved,
                                           const v1::Finetuning& finetuning);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_FINETUNING_CONFIG_H_
