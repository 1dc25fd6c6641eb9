// Which models the files of a Hugging Face directory can hold.
#ifndef BRAID_INFERENCE_HUGGINGFACE_EXPORTED_LAYOUT_H_
#define BRAID_INFERENCE_HUGGINGFACE_EXPORTED_LAYOUT_H_

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns OK when a class, stock or braid's own, computes what the resolved model does.
// InvalidArgument names the setting that none has, and what to do.
absl::Status CheckExportedLayout(const v1::ModelConfig& config);

// The part of CheckExportedLayout that also concerns adapters alone: the stock classes bound no
// logits; the class of expert models does.
absl::Status CheckExportedSoftCap(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_EXPORTED_LAYOUT_H_
