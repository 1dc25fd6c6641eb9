// The output head's part of a configuration: the label head, z_loss and logit_soft_cap.
#ifndef BRAID_MODEL_CONFIG_HEAD_CONFIG_H_
#define BRAID_MODEL_CONFIG_HEAD_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// The parameter of a label head, [HeadWidth, D], without bias: the name in
// LlamaForSequenceClassification.
inline constexpr char kLabelHead[] = "score.weight";

// Returns the rows of the output head: V, or the number of classes of a label head, or 1 of a
// regression.
int64_t HeadWidth(const v1::ModelConfig& config);

// Returns the label head as text for messages: "classes negative, positive", "regression" or "no
// labels".
std::string LabelsText(const v1::LabelHead& head);

// Returns FAILED_PRECONDITION, which names `model`, for a model with a label head, which predicts
// no tokens.
absl::Status CheckPredictsTokens(const v1::ModelConfig& config, const std::string& model);

// Checks classes and losses of a label head against the rest of the configuration.
absl::Status CheckLabelHead(const v1::ModelConfig& config);

// Clears the terms that are off, so that equal models compare equal.
void DropHeadDefaults(v1::ModelConfig* config);

// Checks both against the rest of the configuration, whose defaults are filled in.
absl::Status CheckHeadLoss(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_HEAD_CONFIG_H_
