#include "inference/huggingface/exported_layout.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "inference/huggingface/config_json.h"
#include "model/config/document_config.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

// GPT-2's class has one FFN per layer.
absl::Status CheckGpt2(const v1::ModelConfig& config) {
  if (!IsGpt2(config) || !UsesExperts(config)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "model.routing: got experts of the family GPT2, expected a dense model: GPT2LMHeadModel has "
      "no experts, and the exported layout only those of LLAMA; put slices of an FFN together with "
      "'braid convert --dense'");
}

// The exported classes choose by a token and its id, not by its document or a mean of inputs.
absl::Status CheckGate(const v1::ModelConfig& config) {
  if (CutsAtDocuments(config.routing()) && !RoutesTokens(config.routing())) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.routing.segment_boundaries: routing depends on where documents begin, "
                     "which the exported layout does not have; bake "
                     "a prompt to export a model with merged experts"));
  }
  if (config.routing().router() != v1::TOKEN_CHOICE) return absl::OkStatus();
  if (config.routing().token().has_document_pool()) {
    return absl::InvalidArgumentError(
        "model.routing.token.document_pool: the exported layout has no pools of experts; export a "
        "model that was trained without document_pool");
  }
  if (config.routing().token().centered_input()) {
    return absl::InvalidArgumentError(
        "model.routing.token.centered_input: the exported layout has no mean of inputs; export a "
        "model that was trained without centered_input");
  }
  return absl::OkStatus();
}

// The layout of expert models, other than Mixtral, has no class with a label head.
absl::Status CheckLabelClass(const v1::ModelConfig& config) {
  if (!config.has_label_head() || !UsesExperts(config) || IsMixtral(config)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.label_head: got ", LabelsText(config.label_head()), " with router ",
                   v1::Router_Name(config.routing().router()),
                   ", expected a dense model: the exported layout of experts has no label head; "
                   "export one of a prompt with --bake"));
}

}  // namespace

absl::Status CheckExportedSoftCap(const v1::ModelConfig& config) {
  if (config.logit_soft_cap() == 0 || UsesExperts(config)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.logit_soft_cap: got ", config.logit_soft_cap(),
                   ", expected 0: ", ArchitectureOf(config),
                   " has no bound of the logits, so its probabilities would differ; train without "
                   "it to export a dense model"));
}

absl::Status CheckExportedLayout(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckGpt2(config));
  RETURN_IF_ERROR(CheckGate(config));
  RETURN_IF_ERROR(CheckExportedSoftCap(config));
  return CheckLabelClass(config);
}

}  // namespace braid
