// The part of the stage deduplicate that compares documents with evaluation data
// (evaluation_overlap.h) and drops those that share text with it.
//
// Output, only if decontaminate.paths is set:
//   contamination.json, contaminated_runs.npy   formats/contamination.h
//   contaminated_documents.jsonl   for each document that shares a run: "document" (id),
//                                  "text" (the first such text, FILE:LINE or FILE) and "words"
//                                  (a common run)
#ifndef BRAID_PIPELINE_STAGES_DECONTAMINATION_H_
#define BRAID_PIPELINE_STAGES_DECONTAMINATION_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_key.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Adds the settings and the content of the evaluation files to a key. Errors: those of
// ReadEvaluationTexts().
absl::Status AddDecontamination(const v1::DecontaminateConfig& config, StageKey* key);

// Compares the documents whose `keep` [n] is 1, stores the result, and sets `keep` to 0 for the
// documents found unless config.report_only is set. Does nothing without config.paths. Units of
// `progress`: documents. Errors: those of ReadEvaluationTexts(); CANCELLED.
absl::Status Decontaminate(const DocumentStore& documents, const v1::DecontaminateConfig& config,
                           const ProgressCallback& progress, std::vector<uint8_t>* keep,
                           StageWriter* stage);

// A line of contaminated_documents.jsonl.
struct ContaminatedDocument {
  std::string text;
  std::string words;
};

// Returns the line of a document in the output of the stage deduplicate; nullopt without one.
std::optional<ContaminatedDocument> FindContaminated(const std::filesystem::path& directory,
                                                     std::string_view id);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_DECONTAMINATION_H_
