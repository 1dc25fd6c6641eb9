// The settings of the router TOKEN_CHOICE: defaults and checks. Private to model/config/.
#ifndef BRAID_MODEL_CONFIG_TOKEN_ROUTING_CONFIG_H_
#define BRAID_MODEL_CONFIG_TOKEN_ROUTING_CONFIG_H_

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Fills what is unset in `routing`, that of a TOKEN_CHOICE model whose other settings `config` has.
void FillTokenDefaults(const v1::ModelConfig& config, v1::RoutingConfig* routing);

// Checks routing.token against the rest of the configuration, whose defaults are filled in.
// INVALID_ARGUMENT names the field.
absl::Status CheckTokenRouting(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_TOKEN_ROUTING_CONFIG_H_
