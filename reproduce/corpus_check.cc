#include "reproduce/corpus_check.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

// A run may see its text this often; then it learns it by heart.
constexpr double kMostPasses = 4;
// Windows that a domain needs to be resampled at all, and that the whole corpus needs.
constexpr int64_t kFewestDomainWindows = 8;
constexpr int64_t kFewestWindows = 32;
// Source documents that its held-out text should come from.
constexpr int64_t kFewestDomainSources = 20;
// Above this share of its bytes in documents longer than half the context, a corpus is one of
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

// A few of them, and how many more there are.
std::string SomeOf(const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  if (names.size() <= kMost) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kMost, ", "), " and ",
                      names.size() - kMost, " more");
}

// Bytes of which `passes` passes give a run its tokens.
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
  const double needed =
      std::max(BytesFor(needs, kMostPasses), BytesForWindows(needs, kFewestWindows));
  if (bytes >= needed) return std::nullopt;
  return CorpusFinding{
      FindingKind::kTooSmall, /*fatal=*/true,
      absl::StrFormat(
          "the corpus is too small: got %s of text, needed at least %s for runs of %s "
          "tokens and %d held-out windows; add text, or train less with --quick or --steps",
          Size(bytes), Size(needed), CompactCount(static_cast<double>(needs.tokens_of_run)),
          kFewestWindows)};
}

std::optional<CorpusFinding> CheckPasses(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  const double passes =
      static_cast<double>(needs.tokens_of_run) / std::max(TrainingTokens(corpus, needs), 1.0);
  if (passes <= 1 || passes > kMostPasses) return std::nullopt;
  return CorpusFinding{
      FindingKind::kRepeats, /*fatal=*/false,
      absl::StrFormat("each run sees the corpus %.1f times: %s of text, where one pass needs %s; "
                      "training losses then fall further than held-out ones, for all arms alike",
                      passes, Size(static_cast<double>(corpus.num_bytes)),
                      Size(BytesFor(needs, 1)))};
}

// Text of the domains that will have too few held-out windows for a number of their own.
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
  return CorpusFinding{
      FindingKind::kOneDomain, /*fatal=*/false,
      absl::StrCat("all documents are labelled with one domain, \"", name,
                   "\": specialisation by domain and gains by domain (claims 4, 6, 7) would have "
                   "nothing to compare")};
}

// What is said where clusters replace the domains of paths.
std::string WhyNotPaths(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  if (corpus.domains.size() < 2) return "";
  return absl::StrFormat(
      "%.0f %% of the text is in files or directories of under %s, too little for %d held-out "
      "windows of %d tokens each, so these %d are not taken for domains: ",
      100 * static_cast<double>(BytesOfSmallDomains(corpus, needs)) /
          static_cast<double>(corpus.num_bytes),
      Size(BytesForWindows(needs, kFewestDomainWindows)), kFewestDomainWindows,
      needs.sequence_length, corpus.domains.size());
}

std::optional<CorpusFinding> CheckLabels(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  if (ChooseDomainSource(corpus, needs) != DomainSource::kClusters) return std::nullopt;
  return CorpusFinding{
      FindingKind::kClustered, /*fatal=*/false,
      absl::StrCat(WhyNotPaths(corpus, needs), "domains are ", kNumClusters,
                   " clusters of the documents' embeddings, named cluster-0 to cluster-",
                   kNumClusters - 1,
                   ": the embeddings that order the documents also name the domains, so claims 6 "
                   "and 7 say less than with labels; give records a field \"domain\", or one file "
                   "or directory for each domain")};
}

int64_t ContextBytes(const CorpusNeeds& needs) {
  return static_cast<int64_t>(static_cast<double>(needs.sequence_length) * needs.bytes_per_token);
}

std::string WhatIsDoneAboutLength(const CorpusNeeds& needs) {
  if (needs.split_bytes > 0 && 2 * needs.split_bytes <= ContextBytes(needs)) {
    return absl::StrFormat(
        "they are cut at paragraph and line ends to %s bytes (--split-bytes 0 keeps "
        "them whole)",
        WithThousands(needs.split_bytes));
  }
  return "--split-bytes 450 cuts them at paragraph and line ends to about 150 tokens";
}

std::optional<CorpusFinding> CheckLengths(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  const double share =
      static_cast<double>(corpus.num_long_bytes) / static_cast<double>(corpus.num_bytes);
  if (!(share > kMostLong)) return std::nullopt;
  return CorpusFinding{
      FindingKind::kLongDocuments, /*fatal=*/false,
      absl::StrFormat("%.0f %% of the text is in documents longer than half the context of %d "
                      "tokens (about %s bytes): whole, they would fill training instances on their "
                      "own, in any order, so that similarity order could not matter (claim 3); %s",
                      100 * share, needs.sequence_length, WithThousands(LongDocumentBytes(needs)),
                      WhatIsDoneAboutLength(needs))};
}

// A few records without the field do not make files the domains.
DomainSource DomainSourceOf(const v1::CorpusDescription& description) {
  const bool labelled = 2 * description.num_field_documents() >= description.num_documents();
  return labelled ? DomainSource::kLabels : DomainSource::kPaths;
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
  // A last window needs an input and a target.
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
    notes.push_back(absl::StrFormat(
        "too little held-out text for a number of its own, under %d windows of %d tokens: %s",
        kFewestDomainWindows, sequence_length, SomeOf(few_windows)));
  }
  if (!few_sources.empty()) {
    notes.push_back(absl::StrFormat(
        "held-out text from under %d source documents, so that numbers of the domain are those of "
        "a few documents: %s",
        kFewestDomainSources, SomeOf(few_sources)));
  }
  return notes;
}

}  // namespace braid
