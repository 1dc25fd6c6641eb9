// Checks whether a corpus is suitable for `braid reproduce`, before anything is trained on it. The
// messages name no claims, since the numbers of claims are those of one experiment.
#ifndef BRAID_REPRODUCE_CORPUS_CHECK_H_
#define BRAID_REPRODUCE_CORPUS_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/corpus.pb.h"
#include "reproduce/contrasts.h"

namespace braid {

// The source of the domains of documents.
enum class DomainSource {
  // A field that at least half of the records have.
  kLabels,
  // Files and subdirectories.
  kPaths,
  // Clusters of the embeddings of documents.
  kClusters,
};

struct CorpusDomain {
  std::string name;
  int64_t num_documents = 0;
  int64_t num_bytes = 0;
};

// Statistics of a corpus before its documents are cut.
struct CorpusSummary {
  std::vector<CorpusDomain> domains = {};
  DomainSource domain_source = DomainSource::kLabels;
  // Bytes of text in total, and in documents of more than LongDocumentBytes.
  int64_t num_bytes = 0;
  int64_t num_long_bytes = 0;
};

// Converts the description of a corpus, which must have been requested with LongDocumentBytes as
// the limit of long documents.
CorpusSummary CorpusSummaryOf(const v1::CorpusDescription& description);

// The requirements of the experiment.
struct CorpusNeeds {
  int64_t sequence_length = 512;
  // Tokens that the longest run trains on.
  int64_t tokens_of_run = 0;
  double heldout_fraction = 0.03;
  // Documents are cut to this many bytes; 0: they are not cut.
  int64_t split_bytes = 0;
  // For a vocabulary of 2,048 tokens, measured on mixed text; prose has more.
  double bytes_per_token = 2.3;
};

enum class FindingKind { kTooSmall, kRepeats, kOneDomain, kClustered, kLongDocuments };

struct CorpusFinding {
  FindingKind kind;
  // True if the experiment is impossible.
  bool fatal = false;
  // The finding, the requirement and what to do.
  std::string message;
};

// Returns about half a context of text; longer documents leave little space for others in an
// instance.
int64_t LongDocumentBytes(const CorpusNeeds& needs);

// Returns the findings in the order of FindingKind; empty for a suitable corpus.
std::vector<CorpusFinding> CheckCorpus(const CorpusSummary& corpus, const CorpusNeeds& needs);

// Returns FAILED_PRECONDITION with the messages of the fatal findings, or OK.
absl::Status CorpusStatus(const std::vector<CorpusFinding>& findings);

// Returns kClusters if the corpus has fewer than two domains, or if its domains are paths and more
// than half of the text is in domains that are too small for 8 held-out windows; otherwise the
// source of the corpus. Clusters (k-means over the embeddings of documents) are named "cluster-0"
// to "cluster-7" and replace all labels.
DomainSource ChooseDomainSource(const CorpusSummary& corpus, const CorpusNeeds& needs);
inline constexpr int32_t kNumClusters = 8;

// Returns the number of windows of `sequence_length` targets in a domain with this many held-out
// tokens.
int64_t HeldoutWindows(int64_t num_heldout_tokens, int64_t sequence_length);

// Returns messages about the domains of the prepared corpus with fewer than 8 held-out windows, and
// about the others whose windows come from fewer than 20 source documents. Each names a few of
// them.
std::vector<std::string> HeldoutNotes(const std::vector<DomainProfile>& domains,
                                      int64_t sequence_length);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CORPUS_CHECK_H_
