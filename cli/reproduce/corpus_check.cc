#include "cli/reproduce/corpus_check.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/progress_board.h"
#include "cli/tables.h"

namespace braid {
namespace {

// A run may see its text this often; then it learns it by heart.
constexpr double kMostPasses = 4;
// Windows that a domain needs to be resampled at all, and that the whole corpus needs.
constexpr int64_t kFewestDomainWindows = 8;
constexpr int64_t kFewestWindows = 32;
// Above this share of its bytes in documents longer than half the context, a corpus is one of
// long documents.
constexpr double kMostLong = 0.25;

double TrainingTokens(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  return static_cast<double>(corpus.num_bytes) / needs.bytes_per_token *
         (1 - needs.heldout_fraction);
}

int64_t HeldoutWindows(double bytes, const CorpusNeeds& needs) {
  return static_cast<int64_t>(bytes / needs.bytes_per_token * needs.heldout_fraction /
                              static_cast<double>(needs.sequence_length));
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

std::optional<CorpusFinding> CheckHeldout(const CorpusSummary& corpus, const CorpusNeeds& needs) {
  std::vector<std::string> few;
  for (const CorpusDomain& domain : corpus.domains) {
    if (HeldoutWindows(static_cast<double>(domain.num_bytes), needs) < kFewestDomainWindows) {
      few.push_back(domain.name);
    }
  }
  if (few.empty() || ChooseDomainSource(corpus) == DomainSource::kClusters) return std::nullopt;
  return CorpusFinding{
      FindingKind::kFewHeldout, /*fatal=*/false,
      absl::StrFormat("too little held-out text for a number of its own in %s: under %d windows of "
                      "%d tokens; a domain needs about %s",
                      SomeOf(few), kFewestDomainWindows, needs.sequence_length,
                      Size(BytesForWindows(needs, kFewestDomainWindows)))};
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

std::optional<CorpusFinding> CheckLabels(const CorpusSummary& corpus) {
  if (ChooseDomainSource(corpus) != DomainSource::kClusters) return std::nullopt;
  return CorpusFinding{
      FindingKind::kClustered, /*fatal=*/false,
      absl::StrCat("domains are ", kNumClusters,
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

DomainSource DomainSourceOf(v1::DomainSource source) {
  return source == v1::DOMAIN_FROM_FIELD ? DomainSource::kLabels : DomainSource::kPaths;
}

}  // namespace

CorpusSummary CorpusSummaryOf(const v1::CorpusDescription& description) {
  CorpusSummary corpus{.domain_source = DomainSourceOf(description.domain_source()),
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
       {CheckSize(corpus, needs), CheckPasses(corpus, needs), CheckHeldout(corpus, needs),
        CheckDomains(corpus), CheckLabels(corpus), CheckLengths(corpus, needs)}) {
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

DomainSource ChooseDomainSource(const CorpusSummary& corpus) {
  return corpus.domains.size() < 2 ? DomainSource::kClusters : corpus.domain_source;
}

}  // namespace braid
