#include "model/config/document_config.h"

#include "base/status_macros.h"
#include "model/config/config_checks.h"

namespace braid {
namespace {

absl::Status CheckAttentionMask(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckRange("attention_mask", config.attention_mask(), 0, v1::AttentionMask_MAX));
  if (!UsesDocumentEnd(config)) {
    if (!config.has_document_end()) return absl::OkStatus();
    return Invalid("document_end", "got ", config.document_end(),
                   " with an open mask; set attention_mask to DOCUMENT or leave it unset");
  }
  if (config.has_document_end()) {
    return CheckRange("document_end", config.document_end(), 0, config.vocab_size() - 1);
  }
  return Invalid("document_end",
                 "unset, but attention or routing depends on documents, which needs the id of the "
                 "token that ends one; training takes it from the data");
}

absl::Status CheckSegmentBoundaries(const v1::ModelConfig& config) {
  const v1::RoutingConfig& routing = config.routing();
  RETURN_IF_ERROR(CheckRange("routing.segment_boundaries", routing.segment_boundaries(), 0,
                             v1::RoutingConfig::SegmentBoundaries_MAX));
  const bool document = CutsAtDocuments(routing);
  if (routing.reset_at_documents() && !document) {
    return Invalid("routing.reset_at_documents",
                   "got true with segment_boundaries FIXED, expected DOCUMENT");
  }
  if (!document) return absl::OkStatus();
  if (routing.router() != v1::CAUSAL_SEGMENT && !routing.token().has_document_pool()) {
    return Invalid("routing.segment_boundaries", "got DOCUMENT, but the router is ",
                   v1::Router_Name(routing.router()),
                   ", expected CAUSAL_SEGMENT, or TOKEN_CHOICE with token.document_pool; leave "
                   "segment_boundaries unset");
  }
  if (routing.reset_at_documents() && routing.router() != v1::CAUSAL_SEGMENT) {
    return Invalid("routing.reset_at_documents", "got true, but the router is ",
                   v1::Router_Name(routing.router()), ", expected CAUSAL_SEGMENT; leave it unset");
  }
  if (config.has_layer_mixing()) {
    return Invalid("routing.segment_boundaries",
                   "got DOCUMENT with layer_mixing, expected FIXED; leave one of them unset");
  }
  // Routed on itself, the start of every document would see the tokens that it predicts, not only
  // the start of a sequence, which evaluation leaves out.
  if (!routing.reset_at_documents() || routing.first_segment() == v1::UNIFORM) {
    return absl::OkStatus();
  }
  return Invalid("routing.reset_at_documents",
                 "got true with first_segment SELF_STOP_GRADIENT, which would show every document "
                 "its own first segment; set routing.first_segment to UNIFORM");
}

}  // namespace

bool CutsAtDocuments(const v1::RoutingConfig& resolved) {
  return resolved.segment_boundaries() == v1::RoutingConfig::DOCUMENT;
}

bool UsesDocumentEnd(const v1::ModelConfig& config) {
  return config.attention_mask() == v1::DOCUMENT || CutsAtDocuments(config.routing());
}

absl::Status CheckDocuments(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckAttentionMask(config));
  return CheckSegmentBoundaries(config);
}

}  // namespace braid
