// Whether a corpus can answer the questions that `braid reproduce` puts, told before anything is
// trained on it.
#ifndef BRAID_REPRODUCE_CORPUS_CHECK_H_
#define BRAID_REPRODUCE_CORPUS_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/pipeline.pb.h"
#include "reproduce/contrasts.h"

namespace braid {

// Where the domains of documents come from.
enum class DomainSource {
  // A field of the records, of half of them at least.
  kLabels,
  // Files and sub-directories.
  kPaths,
  // Clusters of the documents' embeddings.
  kClusters,
};

struct CorpusDomain {
  std::string name;
  int64_t num_documents = 0;
  int64_t num_bytes = 0;
};

// What reading a corpus shows, before anything is cut.
struct CorpusSummary {
  std::vector<CorpusDomain> domains = {};
  DomainSource domain_source = DomainSource::kLabels;
  // Of text: in all, and in documents of more than LongDocumentBytes.
  int64_t num_bytes = 0;
  int64_t num_long_bytes = 0;
};

// What a service says of a corpus that was asked for documents over LongDocumentBytes.
CorpusSummary CorpusSummaryOf(const v1::CorpusDescription& description);

// What the experiment does with it.
struct CorpusNeeds {
  int64_t sequence_length = 512;
  // Tokens that a run trains on.
  int64_t tokens_of_run = 0;
  double heldout_fraction = 0.03;
  // Documents are cut to this many bytes; 0: left whole.
  int64_t split_bytes = 0;
  // With a vocabulary of 2,048 pieces; measured on mixed text, and higher on prose.
  double bytes_per_token = 2.3;
};

enum class FindingKind { kTooSmall, kRepeats, kOneDomain, kClustered, kLongDocuments };

struct CorpusFinding {
  FindingKind kind;
  // Nothing can be measured.
  bool fatal = false;
  // What was found, what is needed, what to do.
  std::string message;
};

// About half a context of text: longer documents leave little room for others beside them.
int64_t LongDocumentBytes(const CorpusNeeds& needs);

// In the order of FindingKind; empty for a corpus that suits.
std::vector<CorpusFinding> CheckCorpus(const CorpusSummary& corpus, const CorpusNeeds& needs);

// FAILED_PRECONDITION with the messages of the fatal findings.
absl::Status CorpusStatus(const std::vector<CorpusFinding>& findings);

// kClusters when the corpus names fewer than two domains, and when paths name them and more than
// half of the text is in domains too small for 8 held-out windows; else what it says. Clustering
// (k-means over the documents' embeddings) calls the domains "cluster-0" to "cluster-7" and
// replaces labels altogether.
DomainSource ChooseDomainSource(const CorpusSummary& corpus, const CorpusNeeds& needs);
inline constexpr int32_t kNumClusters = 8;

// Windows of `sequence_length` targets that a domain with this many held-out tokens has.
int64_t HeldoutWindows(int64_t num_heldout_tokens, int64_t sequence_length);

// For people: which domains of the prepared corpus have under 8 held-out windows, and which of the
// others have them from under 20 source documents. Names a few of them; empty for none.
std::vector<std::string> HeldoutNotes(const std::vector<DomainProfile>& domains,
                                      int64_t sequence_length);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CORPUS_CHECK_H_
