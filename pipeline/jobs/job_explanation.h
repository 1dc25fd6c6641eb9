// Explains the dataset of a job: which documents are in a training instance, and what happened to a
// document. Combines the provenance tables with texts, duplicates, held-out documents and rejects.
#ifndef BRAID_PIPELINE_JOBS_JOB_EXPLANATION_H_
#define BRAID_PIPELINE_JOBS_JOB_EXPLANATION_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"
#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "formats/tokenizer.h"
#include "pipeline/stages/deduplicate_stage.h"
#include "pipeline/stages/document_domains.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/stages/provenance.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"

namespace braid::v1 {
class DocumentSpan;
class ExplainDocumentResponse;
class ExplainInstancesResponse;
class InstanceExplanation;
}  // namespace braid::v1

namespace braid {

class JobExplanation {
 public:
  // Opens and validates the stage outputs of the job. Their tables are compared with the checksums
  // in their manifests here, texts, embeddings and tokens by the functions that read them; each
  // file once per process while it does not change (verified_stage.h). Errors: FAILED_PRECONDITION
  // when the job has not succeeded; NOT_FOUND when a stage output was deleted; DATA_LOSS, also of
  // the functions below, when the outputs are damaged or inconsistent.
  static absl::StatusOr<JobExplanation> Open(const v1::Job& job, const StageStore& store);

  // Returns the documents of an instance, with at most `excerpt_bytes` of the text of each span,
  // cut between characters; 0 or less for no text. OUT_OF_RANGE unless 0 <= instance < the number
  // of instances.
  absl::StatusOr<v1::InstanceExplanation> Instance(int64_t instance, int64_t excerpt_bytes) const;

  // Returns that of several instances. Before each it calls `keep_going` and returns its error.
  // INVALID_ARGUMENT when the response has more than `max_bytes`.
  absl::StatusOr<v1::ExplainInstancesResponse> Instances(
      std::span<const int64_t> instances, int64_t excerpt_bytes, int64_t max_bytes,
      const std::function<absl::Status()>& keep_going) const;

  // Returns what happened to the document with this id, or to the rejected record with this id or
  // at FILE:OFFSET; a document comes before rejected records with its id. NOT_FOUND, with similar
  // ids, for an unknown document.
  absl::StatusOr<v1::ExplainDocumentResponse> Document(const std::string& id,
                                                       int64_t excerpt_bytes) const;

 private:
  // Outputs of stages.
  struct Directories {
    std::filesystem::path ingest, embed, deduplicate, dataset;
  };
  JobExplanation(v1::CorpusSpec spec, Directories directories, DocumentStore documents,
                 DocumentDomains domains, IndexedDataset tokens, NpyArray<float> embeddings,
                 StoredDuplicates duplicates, StoredOrder order, IndexedDataset instances,
                 Provenance provenance, std::unique_ptr<Tokenizer> tokenizer);

  v1::DocumentSpan Describe(const ProvenanceSpan& span, int64_t excerpt_bytes) const;
  std::string Excerpt(const ProvenanceSpan& span, int64_t max_bytes) const;
  std::string SourceFile(std::string_view id) const;
  absl::StatusOr<bool> SetFate(uint32_t document, v1::ExplainDocumentResponse* response) const;
  absl::StatusOr<std::optional<v1::ExplainDocumentResponse>> Reject(const std::string& id) const;
  absl::Status UnknownDocument(const std::string& id) const;

  v1::CorpusSpec spec_;
  Directories directories_;
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
