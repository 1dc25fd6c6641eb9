// The output head's part of a configuration: z_loss and logit_soft_cap. Private to model/config/.
#ifndef BRAID_MODEL_CONFIG_HEAD_CONFIG_H_
#define BRAID_MODEL_CONFIG_HEAD_CONFIG_H_

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Clears the terms that are off, so that equal models compare equal.
void DropHeadDefaults(v1::ModelConfig* config);

// Checks both against the rest of the configuration, whose defaults are filled in.
absl::Status CheckHeadLoss(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_HEAD_CONFIG_H_
