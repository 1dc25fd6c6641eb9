#include "model/config/head_config.h"

#include <cmath>

#include "model/config/config_checks.h"

namespace braid {

void DropHeadDefaults(v1::ModelConfig* config) {
  if (config->z_loss() == 0) config->clear_z_loss();
  if (config->logit_soft_cap() == 0) config->clear_logit_soft_cap();
}

absl::Status CheckHeadLoss(const v1::ModelConfig& config) {
  const double z = config.z_loss(), cap = config.logit_soft_cap();
  if (!(std::isfinite(z) && z >= 0)) {
    return Invalid("z_loss", "got ", z, ", expected 0 or a positive number, such as 1e-4");
  }
  if (!(std::isfinite(cap) && cap >= 0)) {
    return Invalid("logit_soft_cap", "got ", cap, ", expected 0 or a positive number, such as 30");
  }
  if (config.consistency_loss() == 0 || (z == 0 && cap == 0)) return absl::OkStatus();
  return Invalid(z > 0 ? "z_loss" : "logit_soft_cap", "got ", z > 0 ? z : cap,
                 " with consistency_loss ", config.consistency_loss(),
                 ", expected at most one of them");
}

}  // namespace braid
