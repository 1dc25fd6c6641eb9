// The domain of each document of a packed dataset: the one in its record or path, or a cluster of
// embeddings.
#ifndef BRAID_PIPELINE_STAGES_DOCUMENT_DOMAINS_H_
#define BRAID_PIPELINE_STAGES_DOCUMENT_DOMAINS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

struct DocumentDomains {
  std::vector<std::string> names;  // sorted
  std::vector<int32_t> numbers;    // [documents], each an index into `names`

  const std::string& name_of(int64_t document) const {
    return names[static_cast<size_t>(numbers[static_cast<size_t>(document)])];
  }
};

// Returns the domains that ingest stored.
DocumentDomains RecordedDomains(const DocumentStore& documents);

// Returns k-means clusters of the embeddings (document_clusters.h), named "cluster-0" and so on, as
// domains. The clusters are trained on the `training` documents, which may be in any order; every
// other document belongs to the nearest. Clusters without documents have no name. Errors:
// FAILED_PRECONDITION for more clusters than training documents; those of `check`.
absl::StatusOr<DocumentDomains> ClusterDomains(const DocumentVectors& embeddings,
                                               std::vector<uint32_t> training, int64_t num_clusters,
                                               uint64_t seed, const StopCheck& check);

// Writes document_domains.npy: [documents] int32, rows of domain_summaries.json (domain_summary.h).
absl::Status StoreDocumentDomains(const DocumentDomains& domains, StageWriter* stage);

// Returns the domains by which the dataset of a job was packed: clusters if the spec requests them,
// else the recorded ones. DATA_LOSS when the files in `dataset` are inconsistent with each other or
// with `documents`.
absl::StatusOr<DocumentDomains> DomainsOfDataset(const v1::CorpusSpec& resolved,
                                                 const DocumentStore& documents,
                                                 const std::filesystem::path& dataset);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_DOCUMENT_DOMAINS_H_
