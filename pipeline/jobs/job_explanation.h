// Which documents a job put into which training instance, and what became of
// each document: provenance read back together with texts, duplicates, held-out
// documents and rejects.
#ifndef BRAID_PIPELINE_JOBS_JOB_EXPLANATION_H_
#define BRAID_PIPELINE_JOBS_JOB_EXPLANATION_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "formats/tokenizer.h"
#include "pipeline/stages/deduplicate_stage.h"
#include "pipeline/stages/document_domains.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/stages/provenance.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"

namespace braid {

class JobExplanation {
 public:
  // Opens what the job's stages left in the store. FAILED_PRECONDITION when the
  // job has not succeeded; NOT_FOUND, with a hint, when a stage was deleted since.
  static absl::StatusOr<JobExplanation> Open(const v1::Job& job, const StageStore& store);

  // `excerpt_bytes`: text of each span, cut between characters; <= 0: none.
  // OUT_OF_RANGE unless 0 <= instance < the number of instances.
  absl::StatusOr<v1::InstanceExplanation> Instance(int64_t instance, int64_t excerpt_bytes) const;

  // By id, or FILE:OFFSET of a rejected record. NOT_FOUND names similar ids.
  absl::StatusOr<v1::ExplainDocumentResponse> Document(const std::string& id,
                                                       int64_t excerpt_bytes) const;

 private:
  JobExplanation(v1::CorpusSpec spec, std::filesystem::path ingest, DocumentStore documents,
                 DocumentDomains domains, IndexedDataset tokens, NpyArray<float> embeddings,
                 StoredDuplicates duplicates, StoredOrder order, IndexedDataset instances,
                 Provenance provenance, std::unique_ptr<Tokenizer> tokenizer);

  v1::DocumentSpan Describe(const ProvenanceSpan& span, int64_t excerpt_bytes) const;
  std::string Excerpt(const ProvenanceSpan& span, int64_t max_bytes) const;
  std::string SourceFile(std::string_view id) const;
  double Cosine(uint32_t a, uint32_t b) const;
  bool SetFate(uint32_t document, v1::ExplainDocumentResponse* response) const;
  absl::StatusOr<std::optional<v1::ExplainDocumentResponse>> Reject(const std::string& id) const;
  absl::Status UnknownDocument(const std::string& id) const;

  v1::CorpusSpec spec_;
  std::filesystem::path ingest_;
  DocumentStore documents_;
  DocumentDomains domains_;
  IndexedDataset tokens_;
  NpyArray<float> embeddings_;  // [documents, dimension]
  StoredDuplicates duplicates_;
  StoredOrder order_;
  IndexedDataset instances_;
  Provenance provenance_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_EXPLANATION_H_
