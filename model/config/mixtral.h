// Which experts a stock Mixtral (MixtralForCausalLM of transformers) can have. A pure function of
// the configuration.
#ifndef BRAID_MODEL_CONFIG_MIXTRAL_H_
#define BRAID_MODEL_CONFIG_MIXTRAL_H_

#include <string>

#include "braid/v1/model.pb.h"

namespace braid {

// Returns why a TOKEN_CHOICE model is not a Mixtral, such as "the gate is KEY_MEAN, expected LINEAR
// or FROZEN"; empty for a Mixtral.
std::string WhyNotMixtral(const v1::ModelConfig& resolved);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MIXTRAL_H_
