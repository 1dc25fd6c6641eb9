// deduplicate: which documents stay.
//
// Output: keep.npy [n] uint8, 1 for a document that stays; duplicates.json:
// counts and examples with ids and similarities.
#ifndef BRAID_PIPELINE_DEDUPLICATE_STAGE_H_
#define BRAID_PIPELINE_DEDUPLICATE_STAGE_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/document_store.h"
#include "pipeline/neighbor_stage.h"
#include "pipeline/stage_advance.h"
#include "pipeline/stage_store.h"

namespace braid {

std::string DeduplicateKey(const v1::CorpusSpec& resolved, const std::string& neighbor_key);

// Units: documents.
absl::Status Deduplicate(const DocumentStore& documents, const StoredNeighbors& neighbors,
                         const v1::DeduplicateConfig& config, const StageAdvance& advance,
                         StageWriter* stage);

}  // namespace braid

#endif  // BRAID_PIPELINE_DEDUPLICATE_STAGE_H_
