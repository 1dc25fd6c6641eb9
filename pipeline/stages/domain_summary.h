// How much of a packed dataset each domain is, and how like the whole: known before any run, so
// that no result can choose what counts as a distinct domain.
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
#include "braid/v1/pipeline.pb.h"
#include "pipeline/stages/document_domains.h"
#include "retrieval/document_vectors.h"

namespace braid {

// What a dataset is packed from. Documents are numbered as in the corpus.
struct PackedDocuments {
  const DocumentDomains& domains;
  std::span<const uint32_t> training = {};  // in any order
  std::span<const uint32_t> heldout = {};
  DocumentVectors embeddings;
  // Of a document, its EOS included.
  std::function<int64_t(uint32_t)> num_tokens;
  // Stays where it is.
  std::function<std::string_view(uint32_t)> id;
};

// One summary a name, in order of names. Held-out sources are counted as heldout_split.h tells them
// apart. `similarity` is the cosine of the token-weighted mean
// embedding of the domain's training documents and that of all of them; 0 for a domain without
// any or of zero vectors. Does not depend on the order of `training`. Reads each embedding twice
// and holds two of them, so they may be memory-mapped.
// Errors: those of `keep_going`, which is asked every thousand documents.
absl::StatusOr<std::vector<v1::DomainSummary>> SummarizeDomains(
    const PackedDocuments& documents, const std::function<absl::Status()>& keep_going);

inline constexpr char kDomainSummariesName[] = "domain_summaries.json";
// The content of that file, a list of objects with the names of the fields of DomainSummary.
std::string DomainSummariesJson(std::span<const v1::DomainSummary> summaries);
// DATA_LOSS when the file in `dataset` is no such list; errors of ReadFile.
absl::StatusOr<std::vector<v1::DomainSummary>> ReadDomainSummaries(
    const std::filesystem::path& dataset);

// Of more than `count` those with the most training tokens, in their order.
std::vector<v1::DomainSummary> LargestDomains(std::vector<v1::DomainSummary> summaries,
                                              size_t count);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_DOMAIN_SUMMARY_H_
