// The stage pack: writes the packed dataset directory that the trainer reads, which
// docs/formats/dataset.md describes.
//
// Output: instances.bin/.idx, heldout/<domain>.bin/.idx, tokenizer.model, dataset.json
// (formats/packed_dataset.h), contamination.json and contaminated_runs.npy
// (formats/contamination.h) if decontaminate.paths is set, domain_summaries.json,
// ordering_report.json, provenance/, and document_domains.npy if pack.domain_clusters is set.
#ifndef BRAID_PIPELINE_STAGES_PACK_STAGE_H_
#define BRAID_PIPELINE_STAGES_PACK_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/corpus.pb.h"
#include "pipeline/stages/neighbor_stage.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Returns the key of the output.
std::string PackKey(const v1::CorpusSpec& resolved, const std::string& tokenize_key,
                    const std::string& order_key);

// The outputs of the earlier stages.
struct PackInputs {
  const DocumentStore& documents;
  const StoredNeighbors& neighbors;
  const StoredOrder& order;
  std::filesystem::path tokenize_directory;
  std::filesystem::path embed_directory;
  std::filesystem::path deduplicate_directory;
};

// Runs the stage; records `key`, that of the output, in dataset.json. Units of `progress`: training
// documents. Errors: FAILED_PRECONDITION when the training documents do not fill one instance or
// are fewer than pack.domain_clusters; CANCELLED.
absl::Status Pack(const PackInputs& inputs, const v1::CorpusSpec& resolved, const std::string& key,
                  const ProgressCallback& progress, StageWriter* stage);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_PACK_STAGE_H_
