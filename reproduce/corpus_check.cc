#include "reproduce/corpus_check.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

// Maximum number of passes over the text; with more, models would memorize it.
constexpr double kMostPasses = 4;
// Minimum number of held-out windows of a domain, which resampling requires, and of the whole
// corpus.
constexpr int64_t kFewestDomainWindows = 8;
constexpr int64_t kFewestWindows = 32;
// Minimum number of source documents of the held-out text of a domain.
constexpr int64_t kFewestDomainSources = 20;
constexpr size_t kMaxNamed = 6;
// A corpus with a larger share of its bytes in documents longer than half the context has too many
// long documents.
constexpr double kMostLong = 0.25;

double TrainingTokens(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  return static_cast<double>(corpus.num_bytes) / needs.bytes_per_token *
         (1 - needs.heldout_fraction);
}

std::string Size(double bytes) {
  return bytes < 1e6 ? absl::StrFormat("%.0f kB", bytes / 1e3)
                     : absl::StrFormat("%.1f MB", bytes / 1e6);
}

// Returns the bytes of text with which `passes` passes have the tokens of a run.
double BytesFor(const CorpusNeeds& needs, double passes) {
  return static_cast<double>(needs.tokens_of_run) / passes / (1 - needs.heldout_fraction) *
         needs.bytes_per_token;
}

double BytesForWindows(const CorpusNeeds& needs, int64_t windows) {
  return static_cast<double>(windows * needs.sequence_length) / needs.heldout_fraction *
         needs.bytes_per_token;
}

std::optional<CorpusFinding> CheckSize(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  const double bytes = static_cast<double>(corpus.num_bytes);
  const double for_windows = BytesForWindows(needs, kFewestWindows);
  const double needed = std::max(BytesFor(needs, kMostPasses), for_windows);
  if (bytes >= needed) return std::nullopt;
  return CorpusFinding{
      FindingKind::kTooSmall, /*fatal=*/true,
      absl::StrFormat(
          "the corpus is too small: got %s of text, expected at least %s for runs of %s "
          "tokens and %d held-out windows; add text%s",
          Size(bytes), Size(needed), CompactCount(static_cast<double>(needs.tokens_of_run)),
          kFewestWindows, bytes < for_windows ? "" : ", or train less with --quick or --steps")};
}

std::optional<CorpusFinding> CheckPasses(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  const double passes =
      static_cast<double>(needs.tokens_of_run) / std::max(TrainingTokens(corpus, needs), 1.0);
  if (passes <= 1 || passes > kMostPasses) return std::nullopt;
  return CorpusFinding{
      FindingKind::kRepeats, /*fatal=*/false,
      absl::StrFormat("the longest runs see the corpus %.1f times: got %s of text, one pass needs "
                      "%s; training losses will be lower than held-out losses, in all arms alike",
                      passes, Size(static_cast<double>(corpus.num_bytes)),
                      Size(BytesFor(needs, 1)))};
}

// Returns the bytes of text in domains that will have too few held-out windows for separate
// numbers.
int64_t BytesOfSmallDomains(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  const double fewest = BytesForWindows(needs, kFewestDomainWindows);
  int64_t bytes = 0;
  for (const CorpusDomain& domain : corpus.domains) {
    if (static_cast<double>(domain.num_bytes) < fewest) bytes += domain.num_bytes;
  }
  return bytes;
}

std::optional<CorpusFinding> CheckDomains(const CorpusSummary& corpus) {
  if (corpus.domains.size() >= 2 || corpus.domain_source != DomainSource::kLabels) {
    return std::nullopt;
  }
  const std::string name = corpus.domains.empty() ? "" : corpus.domains.front().name;
  return CorpusFinding{FindingKind::kOneDomain, /*fatal=*/false,
                       absl::StrCat("all documents are labeled with one domain, \"", name,
                                    "\", with which no other could be compared")};
}

// Returns the reason why clusters replace domains that are paths.
std::string WhyNotPaths(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  if (corpus.domains.size() < 2) return "";
  return absl::StrFormat(
      "%.0f %% of the text is in files or directories of under %s, too little for %d held-out "
      "windows of %d tokens each, so these %d are not used as domains: ",
      100 * static_cast<double>(BytesOfSmallDomains(corpus, needs)) /
          static_cast<double>(corpus.num_bytes),
      Size(BytesForWindows(needs, kFewestDomainWindows)), kFewestDomainWindows,
      needs.sequence_length, corpus.domains.size());
}

std::optional<CorpusFinding> CheckLabels(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  if (ChooseDomainSource(corpus, needs) != DomainSource::kClusters) return std::nullopt;
  return CorpusFinding{
      FindingKind::kClustered, /*fatal=*/false,
      absl::StrCat(
          WhyNotPaths(corpus, needs), "domains are ", kNumClusters,
          " clusters of the document embeddings, named cluster-0 to cluster-", kNumClusters - 1,
          "; since the same embeddings order the documents and define the domains, effects of "
          "domains are weaker evidence than with labels; add a field \"domain\" to the records, "
          "or use one file or directory for each domain")};
}

int64_t ContextBytes(const CorpusNeeds& needs) {
  return static_cast<int64_t>(static_cast<double>(needs.sequence_length) * needs.bytes_per_token);
}

std::string LengthAdvice(const CorpusNeeds& needs) {
  if (needs.split_bytes > 0 && 2 * needs.split_bytes <= ContextBytes(needs)) {
    return absl::StrFormat(
        "they are cut at paragraph and line ends to %s bytes (disable this with "
        "--split-bytes 0)",
        WithThousands(needs.split_bytes));
  }
  return "pass --split-bytes 450 to cut them at paragraph and line ends to about 150 tokens";
}

std::optional<CorpusFinding> CheckLengths(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  const double share =
      static_cast<double>(corpus.num_long_bytes) / static_cast<double>(corpus.num_bytes);
  if (!(share > kMostLong)) return std::nullopt;
  return CorpusFinding{
      FindingKind::kLongDocuments, /*fatal=*/false,
      absl::StrFormat(
          "%.0f %% of the text is in documents longer than half the context of %d "
          "tokens (about %s bytes); uncut, each would fill a training instance alone, so that "
          "the order of documents could have no effect; %s",
          100 * share, needs.sequence_length, WithThousands(LongDocumentBytes(needs)),
          LengthAdvice(needs))};
}

// The field counts if at least half of the documents have it.
DomainSource DomainSourceOf(const v1::CorpusDescription& description) {
  const bool labeled = 2 * description.num_field_documents() >= description.num_documents();
  return labeled ? DomainSource::kLabels : DomainSource::kPaths;
}

}  // namespace

CorpusSummary CorpusSummaryOf(const v1::CorpusDescription& description) {
  CorpusSummary corpus{.domain_source = DomainSourceOf(description),
                       .num_bytes = description.num_bytes(),
                       .num_long_bytes = description.num_long_bytes()};
  for (const v1::CorpusDomain& domain : description.domains()) {
    corpus.domains.push_back({domain.name(), domain.num_documents(), domain.num_bytes()});
  }
  return corpus;
}

int64_t LongDocumentBytes(const CorpusNeeds& needs) { return ContextBytes(needs) / 2; }

std::vector<CorpusFinding> CheckCorpus(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  std::vector<CorpusFinding> findings;
  for (std::optional<CorpusFinding> finding :
       {CheckSize(corpus, needs), CheckPasses(corpus, needs), CheckDomains(corpus),
        CheckLabels(corpus, needs), CheckLengths(corpus, needs)}) {
    if (finding) findings.push_back(*std::move(finding));
  }
  return findings;
}

absl::Status CorpusStatus(const std::vector<CorpusFinding>& findings) {
  std::vector<std::string> messages;
  for (const CorpusFinding& finding : findings) {
    if (finding.fatal) messages.push_back(finding.message);
  }
  if (messages.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(messages, "; "));
}

DomainSource ChooseDomainSource(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  if (corpus.domains.size() < 2) return DomainSource::kClusters;
  const bool mostly_small = 2 * BytesOfSmallDomains(corpus, needs) > corpus.num_bytes;
  return corpus.domain_source == DomainSource::kPaths && mostly_small ? DomainSource::kClusters
                                                                      : corpus.domain_source;
}

int64_t HeldoutWindows(int64_t num_heldout_tokens, int64_t sequence_length) {
  const int64_t whole = num_heldout_tokens / (sequence_length + 1);
  // The last window needs at least an input and a target.
  return whole + (num_heldout_tokens % (sequence_length + 1) >= 2 ? 1 : 0);
}

std::vector<std::string> HeldoutNotes(const std::vector<DomainProfile>& domains,
                                      int64_t sequence_length) {
  std::vector<std::string> few_windows, few_sources;
  for (const DomainProfile& domain : domains) {
    const int64_t windows = HeldoutWindows(domain.num_heldout_tokens, sequence_length);
    if (windows < kFewestDomainWindows) {
      few_windows.push_back(absl::StrCat(domain.name, " (", windows, ")"));
    } else if (domain.num_heldout_sources < kFewestDomainSources) {
      few_sources.push_back(absl::StrCat(domain.name, " (", domain.num_heldout_sources, ")"));
    }
  }
  std::vector<std::string> notes;
  if (!few_windows.empty()) {
    notes.push_back(
        absl::StrFormat("domains with too little held-out text for separate numbers, under %d "
                        "windows of %d tokens: %s",
                        kFewestDomainWindows, sequence_length, SomeOf(few_windows, kMaxNamed)));
  }
  if (!few_sources.empty()) {
    notes.push_back(absl::StrFormat(
        "domains with held-out text from under %d source documents, whose numbers depend on few "
        "documents: %s",
        kFewestDomainSources, SomeOf(few_sources, kMaxNamed)));
  }
  return notes;
}

}  // namespace braid
