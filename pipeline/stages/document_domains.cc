#include "pipeline/stages/document_domains.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/npy.h"
#include "pipeline/stages/domain_summary.h"
#include "retrieval/document_clusters.h"

namespace braid {
namespace {

constexpr char kFileName[] = "document_domains.npy";

// Names the clusters that have documents. Names are sorted as strings, so cluster-10 precedes
// cluster-2.
DocumentDomains NameClusters(std::span<const uint32_t> clusters, int64_t num_clusters) {
  std::vector<bool> used(static_cast<size_t>(num_clusters), false);
  for (const uint32_t cluster : clusters) used[cluster] = true;
  std::vector<std::pair<std::string, size_t>> named;
  for (size_t cluster = 0; cluster < used.size(); ++cluster) {
    if (used[cluster]) named.emplace_back(absl::StrCat("cluster-", cluster), cluster);
  }
  std::ranges::sort(named);
  DocumentDomains domains;
  std::vector<int32_t> number_of(used.size(), -1);
  for (auto& [name, cluster] : named) {
    number_of[cluster] = static_cast<int32_t>(domains.names.size());
    domains.names.push_back(std::move(name));
  }
  domains.numbers.reserve(clusters.size());
  for (const uint32_t cluster : clusters) domains.numbers.push_back(number_of[cluster]);
  return domains;
}

}  // namespace

DocumentDomains RecordedDomains(const DocumentStore& documents) {
  return {documents.domain_names(), {documents.domains().begin(), documents.domains().end()}};
}

absl::StatusOr<DocumentDomains> ClusterDomains(const DocumentVectors& embeddings,
                                               std::vector<uint32_t> training, int64_t num_clusters,
                                               uint64_t seed, const StopCheck& check) {
  std::ranges::sort(training);
  const absl::StatusOr<std::vector<uint32_t>> clusters =
      ClusterDocuments(embeddings, training, num_clusters, seed, check);
  if (absl::IsFailedPrecondition(clusters.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("pack.domain_clusters: ", clusters.status().message(),
                     "; lower pack.domain_clusters or add documents"));
  }
  RETURN_IF_ERROR(clusters.status());
  return NameClusters(*clusters, num_clusters);
}

absl::Status StoreDocumentDomains(const DocumentDomains& domains, StageWriter* stage) {
  return stage->AddArray<int32_t>(kFileName, domains.numbers);
}

absl::StatusOr<DocumentDomains> DomainsOfDataset(const v1::CorpusSpec& resolved,
                                                 const DocumentStore& documents,
                                                 const std::filesystem::path& dataset) {
  if (resolved.pack().domain_clusters() == 0) return RecordedDomains(documents);
  DocumentDomains domains;
  ASSIGN_OR_RETURN(const auto summaries, ReadDomainSummaries(dataset));
  for (const v1::DomainSummary& summary : summaries) domains.names.push_back(summary.name());
  ASSIGN_OR_RETURN(const auto numbers, NpyArray<int32_t>::Open(dataset / kFileName));
  domains.numbers.assign(numbers.values().begin(), numbers.values().end());
  const auto num_names = static_cast<int32_t>(domains.names.size());
  const auto known = [&](int32_t number) { return number >= 0 && number < num_names; };
  if (static_cast<int64_t>(domains.numbers.size()) == documents.size() &&
      std::ranges::all_of(domains.numbers, known)) {
    return domains;
  }
  return absl::DataLossError(absl::StrCat(
      (dataset / kFileName).string(), ": got ", domains.numbers.size(), " documents, expected ",
      documents.size(), ", each in one of the ", num_names, " domains of ", kDomainSummariesName));
}

}  // namespace braid
