// Settings that depend on where documents begin: attention and routing.
#ifndef BRAID_MODEL_CONFIG_DOCUMENT_CONFIG_H_
#define BRAID_MODEL_CONFIG_DOCUMENT_CONFIG_H_

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns whether segments begin with documents (segment_boundaries DOCUMENT).
bool CutsAtDocuments(const v1::RoutingConfig& resolved);

// Returns whether the model needs document_end: for its attention mask or its routing.
bool UsesDocumentEnd(const v1::ModelConfig& config);

// Checks these settings of a configuration whose defaults are filled in. InvalidArgument names the
// field.
absl::Status CheckDocuments(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_DOCUMENT_CONFIG_H_
