// pack: the dataset directory that the trainer reads; docs/formats/dataset.md is
// its reference.
//
// Output: instances.bin/.idx, heldout/<domain>.bin/.idx, tokenizer.model,
// dataset.json, domain_summaries.json, ordering_report.json, provenance/; document_domains.npy with
// pack.domain_clusters.
#ifndef BRAID_PIPELINE_STAGES_PACK_STAGE_H_
#define BRAID_PIPELINE_STAGES_PACK_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/stages/neighbor_stage.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_advance.h"
#include "pipeline/store/stage_store.h"

namespace braid {

std::string PackKey(const v1::CorpusSpec& resolved, const std::string& tokenize_key,
                    const std::string& order_key);

struct PackInputs {
  const DocumentStore& documents;
  const StoredNeighbors& neighbors;
  const StoredOrder& order;
  std::filesystem::path tokenize_directory;
  std::filesystem::path embed_directory;
};

// `key`: of this output, recorded in dataset.json. Units: training documents.
// Errors: FAILED_PRECONDITION when the training documents do not fill one
// instance or are fewer than pack.domain_clusters; CANCELLED.
absl::Status Pack(const PackInputs& inputs, const v1::CorpusSpec& resolved, const std::string& key,
                  const StageAdvance& advance, StageWriter* stage);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_PACK_STAGE_H_
