#include "model/config/head_config.h"

#include <cmath>
#include <set>

#include "absl/strings/str_join.h"
#include "model/config/config_checks.h"

namespace braid {

int64_t HeadWidth(const v1::ModelConfig& config) {
  if (!config.has_label_head()) return config.vocab_size();
  return config.label_head().regression() ? 1 : config.label_head().classes_size();
}

std::string LabelsText(const v1::LabelHead& head) {
  if (head.regression()) return "regression";
  return head.classes().empty() ? "no labels"
                                : absl::StrCat("classes ", absl::StrJoin(head.classes(), ", "));
}

absl::Status CheckPredictsTokens(const v1::ModelConfig& config, const std::string& model) {
  if (!config.has_label_head()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(model, ": got a model with a label head (", LabelsText(config.label_head()),
                   "), expected one that predicts tokens; evaluate it with 'braid eval tasks' or "
                   "export it"));
}

absl::Status CheckLabelHead(const v1::ModelConfig& config) {
  if (!config.has_label_head()) return absl::OkStatus();
  const v1::LabelHead& head = config.label_head();
  if (config.z_loss() > 0 || config.logit_soft_cap() > 0) {
    return Invalid(config.z_loss() > 0 ? "z_loss" : "logit_soft_cap",
                   "got a term of the logits of tokens with label_head, expected 0");
  }
  if (head.regression()) {
    if (!head.classes().empty()) {
      return Invalid("label_head.classes", "got ", head.classes_size(),
                     " names with regression, expected none");
    }
    if (config.consistency_loss() == 0) return absl::OkStatus();
    return Invalid("consistency_loss", "got ", config.consistency_loss(),
                   " with label_head.regression, expected 0: numbers have no distribution");
  }
  if (head.classes_size() < 2) {
    return Invalid("label_head.classes", "got ", head.classes_size(),
                   " names, expected two or more, or label_head.regression");
  }
  std::set<std::string> seen;
  for (const std::string& name : head.classes()) {
    if (!name.empty() && seen.insert(name).second) continue;
    return Invalid("label_head.classes", "got \"", name,
                   name.empty() ? "\", expected names that are not empty"
                                : "\" twice, expected different names");
  }
  return absl::OkStatus();
}

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
