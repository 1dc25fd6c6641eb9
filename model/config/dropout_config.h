// The settings of dropout and of the consistency loss: defaults and checks. Private to
// model/config/.
#ifndef BRAID_MODEL_CONFIG_DROPOUT_CONFIG_H_
#define BRAID_MODEL_CONFIG_DROPOUT_CONFIG_H_

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Fills what is unset in `dropout`, and clears settings that mean the same as their absence.
void FillDropoutDefaults(v1::ModelConfig* config);

// Checks dropout and consistency_loss against the rest of the configuration, whose defaults are
// filled in. INVALID_ARGUMENT names the field.
absl::Status CheckDropout(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_DROPOUT_CONFIG_H_
