// Which domain each document of a packed dataset belongs to: what its record says, or a cluster.
#ifndef BRAID_PIPELINE_STAGES_DOCUMENT_DOMAINS_H_
#define BRAID_PIPELINE_STAGES_DOCUMENT_DOMAINS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

struct DocumentDomains {
  std::vector<std::string> names;  // sorted
  std::vector<int32_t> numbers;    // [documents], each an index in `names`

  const std::string& name_of(int64_t document) const {
    return names[static_cast<size_t>(numbers[static_cast<size_t>(document)])];
  }
};

// As ingest has stored them.
DocumentDomains RecordedDomains(const DocumentStore& documents);

// Clusters of the embeddings (document_clusters.h), "cluster-0" and so on, made from the
// `training` documents, in any order; the others go to the nearest. Names only those that have
// documents. FAILED_PRECONDITION for more clusters than training documents; errors of `check`.
absl::StatusOr<DocumentDomains> ClusterDomains(const DocumentVectors& embeddings,
                                               std::vector<uint32_t> training, int64_t num_clusters,
                                               uint64_t seed, const StopCheck& check);

// document_domains.npy: [documents] int32, rows of domain_summaries.json (domain_summary.h).
absl::Status StoreDocumentDomains(const DocumentDomains& domains, StageWriter* stage);

// The domains by which the dataset of a job is packed: those of the clusters where the spec asks
// for them. DATA_LOSS when the files in `dataset` do not fit together, or not `documents`.
absl::StatusOr<DocumentDomains> DomainsOfDataset(const v1::CorpusSpec& resolved,
                                                 const DocumentStore& documents,
                                                 const std::filesystem::path& dataset);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_DOCUMENT_DOMAINS_H_
