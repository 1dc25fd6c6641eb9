// Summaries of the domains of a packed dataset: their sizes and their similarity to the whole. They
// are computed before any training run, so that no result can influence what counts as a distinct
// domain.
#ifndef BRAID_PIPELINE_STAGES_DOMAIN_SUMMARY_H_
#define BRAID_PIPELINE_STAGES_DOMAIN_SUMMARY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/job.pb.h"
#include "pipeline/stages/document_domains.h"
#include "retrieval/document_vectors.h"

namespace braid {

// The documents of a packed dataset, numbered as in the corpus.
struct PackedDocuments {
  const DocumentDomains& domains;
  std::span<const uint32_t> training = {};  // in any order
  std::span<const uint32_t> heldout = {};
  DocumentVectors embeddings;
  // Returns the number of tokens of a document, EOS included.
  std::function<int64_t(uint32_t)> num_tokens;
  // Returns the id of a document's source (heldout_split.h); the view must remain valid.
  std::function<std::string_view(uint32_t)> source;
};

// Returns one summary per domain, sorted by name. `similarity` is the cosine of the token-weighted
// mean embedding of the training documents of the domain and that of all training documents; 0 for
// a domain without training documents or with zero vectors only.
//
// Guarantees: the result does not depend on the order of `training`. Reads each embedding twice and
// holds two sums, so the embeddings may be memory-mapped. Errors: those of `keep_going`, which is
// called every thousand documents.
absl::StatusOr<std::vector<v1::DomainSummary>> SummarizeDomains(
    const PackedDocuments& documents, const std::function<absl::Status()>& keep_going);

inline constexpr char kDomainSummariesName[] = "domain_summaries.json";
// Returns the content of that file: a list of objects whose keys are the fields of DomainSummary.
std::string DomainSummariesJson(std::span<const v1::DomainSummary> summaries);
// Reads that file in the directory `dataset`. Errors: DATA_LOSS when the file is malformed; those
// of ReadFile.
absl::StatusOr<std::vector<v1::DomainSummary>> ReadDomainSummaries(
    const std::filesystem::path& dataset);

// Returns at most `count` summaries, those with the most training tokens, sorted by name.
std::vector<v1::DomainSummary> LargestDomains(std::vector<v1::DomainSummary> summaries,
                                              size_t count);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_DOMAIN_SUMMARY_H_
