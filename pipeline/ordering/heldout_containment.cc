#include "pipeline/ordering/heldout_containment.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/ordering/document_blocks.h"
#include "pipeline/ordering/word_run_index.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

using OverlapByDocument = std::map<uint32_t, HeldoutOverlap>;

// Calls body(begin, end) for parts of `numbers` in parallel and reports progress in between.
absl::Status ForDocuments(const DocumentStore& documents, std::span<const uint32_t> numbers,
                          const ProgressCallback& progress,
                          const std::function<void(int64_t, int64_t)>& body) {
  return ForDocumentBlocks(documents, numbers, progress, [&](int64_t begin, int64_t end) {
    ParallelFor(end - begin, DocumentGrain(end - begin),
                [&](int64_t from, int64_t to) { body(begin + from, begin + to); });
  });
}

// The comparison of the training documents with one block of held-out documents.
class BlockComparison {
 public:
  BlockComparison(const DocumentStore& documents, std::span<const uint32_t> heldout,
                  const ContainmentOptions& options)
      : documents_(documents),
        heldout_(heldout),
        options_(options),
        index_(documents.Texts(heldout)),
        num_documents_(index_.num_runs()) {}

  // Counts, for each run, the documents of `training` that have it. Sets `touched` to 1 for a
  // document that has any.
  absl::Status CountDocuments(std::span<const uint32_t> training, const ProgressCallback& progress,
                              std::vector<uint8_t>* touched);
  // Adds the contained and containing ones among `candidates` to `overlaps`. Requires
  // CountDocuments() with the training documents.
  absl::Status FindOverlaps(std::span<const uint32_t> candidates, const ProgressCallback& progress,
                            OverlapByDocument* overlaps);
  // Appends the shares of the held-out documents. Requires CountDocuments() with the remaining
  // training documents.
  void AppendShares(std::vector<RunShare>* shares) const;

 private:
  // Working memory of one thread.
  struct Common {
    explicit Common(size_t num_texts) : of_heldout(num_texts), of_document(num_texts) {}
    std::vector<uint32_t> runs, boilerplate;
    // By held-out document, zero between calls: its positions whose run the training document has,
    // and the positions of the training document whose run it has.
    std::vector<int64_t> of_heldout, of_document;
    std::vector<uint32_t> seen;  // held-out documents with a count
  };

  bool IsBoilerplate(uint32_t run) const {
    return num_documents_[run].load(std::memory_order_relaxed) > options_.max_run_documents;
  }
  std::vector<int64_t> InformativeRuns() const;
  // Returns how many of `runs` a held-out document has.
  int64_t CountIn(uint32_t text, std::span<const uint32_t> runs) const;
  // Returns the overlap of a training document with the greatest share, which is below min_share if
  // there is none.
  HeldoutOverlap BestOverlap(uint32_t document, std::span<const int64_t> informative,
                             Common* common) const;
  void CountRun(uint32_t run, int64_t positions, Common* common) const;

  const DocumentStore& documents_;
  const std::span<const uint32_t> heldout_;
  const ContainmentOptions& options_;
  const WordRunIndex index_;
  std::vector<std::atomic<uint32_t>> num_documents_;  // training documents by run
};

absl::Status BlockComparison::CountDocuments(std::span<const uint32_t> training,
                                             const ProgressCallback& progress,
                                             std::vector<uint8_t>* touched) {
  touched->resize(training.size());
  for (std::atomic<uint32_t>& count : num_documents_) count.store(0, std::memory_order_relaxed);
  return ForDocuments(documents_, training, progress, [&](int64_t begin, int64_t end) {
    std::vector<uint32_t> runs;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      index_.Find(documents_.text(training[i]), &runs);
      std::erase(runs, WordRunIndex::kUnknown);
      std::ranges::sort(runs);
      runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
      for (const uint32_t run : runs) num_documents_[run].fetch_add(1, std::memory_order_relaxed);
      if (!runs.empty()) (*touched)[i] = 1;
    }
  });
}

// Returns, for each held-out document of the block, the number of positions without boilerplate.
std::vector<int64_t> BlockComparison::InformativeRuns() const {
  std::vector<int64_t> informative;
  for (uint32_t text = 0; text < index_.num_texts(); ++text) {
    informative.push_back(std::ranges::count_if(index_.runs_of(text),
                                                [&](uint32_t run) { return !IsBoilerplate(run); }));
  }
  return informative;
}

int64_t BlockComparison::CountIn(uint32_t text, std::span<const uint32_t> runs) const {
  if (runs.empty()) return 0;
  std::vector<uint32_t> own(index_.runs_of(text).begin(), index_.runs_of(text).end());
  std::ranges::sort(own);
  return std::ranges::count_if(runs,
                               [&](uint32_t run) { return std::ranges::binary_search(own, run); });
}

void BlockComparison::CountRun(uint32_t run, int64_t positions, Common* common) const {
  const std::span<const uint32_t> texts = index_.texts_with(run);
  for (size_t i = 0; i < texts.size(); ++i) {
    const uint32_t text = texts[i];
    if (common->of_heldout[text]++ == 0) common->seen.push_back(text);
    if (i == 0 || texts[i - 1] != text) common->of_document[text] += positions;
  }
}

HeldoutOverlap BlockComparison::BestOverlap(uint32_t document, std::span<const int64_t> informative,
                                            Common* common) const {
  std::vector<uint32_t>& runs = common->runs;
  index_.Find(documents_.text(document), &runs);
  const auto num_runs = static_cast<int64_t>(runs.size());
  std::erase(runs, WordRunIndex::kUnknown);
  std::ranges::sort(runs);
  common->boilerplate.clear();
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end] == runs[begin]) ++end;
    const size_t positions = end - begin;
    if (IsBoilerplate(runs[begin])) {
      common->boilerplate.insert(common->boilerplate.end(), positions, runs[begin]);
    } else {
      CountRun(runs[begin], static_cast<int64_t>(positions), common);
    }
  }
  HeldoutOverlap best{.document = document};
  std::ranges::sort(common->seen);
  const auto ratio = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  for (const uint32_t text : common->seen) {
    const int64_t of_document = std::exchange(common->of_document[text], 0);
    double share = ratio(std::exchange(common->of_heldout[text], 0), informative[text]);
    // Only boilerplate that the held-out document has may be subtracted. Counting it takes time, so
    // a bound that subtracts all boilerplate is compared first.
    const auto boilerplate = static_cast<int64_t>(common->boilerplate.size());
    if (ratio(of_document, num_runs - boilerplate) > std::max(share, best.containment)) {
      const int64_t own = num_runs - CountIn(text, common->boilerplate);
      share = std::max(share, ratio(of_document, own));
    }
    if (share <= best.containment) continue;
    best.containment = share;
    best.heldout = heldout_[text];
  }
  common->seen.clear();
  return best;
}

absl::Status BlockComparison::FindOverlaps(std::span<const uint32_t> candidates,
                                           const ProgressCallback& progress,
                                           OverlapByDocument* overlaps) {
  const std::vector<int64_t> informative = InformativeRuns();
  std::vector<HeldoutOverlap> best(candidates.size());
  RETURN_IF_ERROR(ForDocuments(documents_, candidates, progress, [&](int64_t begin, int64_t end) {
    Common common(index_.num_texts());
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      best[i] = BestOverlap(candidates[i], informative, &common);
    }
  }));
  for (const HeldoutOverlap& overlap : best) {
    if (overlap.containment < options_.min_share) continue;
    HeldoutOverlap& known = overlaps->try_emplace(overlap.document).first->second;
    if (overlap.containment > known.containment) known = overlap;
  }
  return absl::OkStatus();
}

void BlockComparison::AppendShares(std::vector<RunShare>* shares) const {
  for (uint32_t text = 0; text < index_.num_texts(); ++text) {
    const std::span<const uint32_t> runs = index_.runs_of(text);
    const int64_t shared = std::ranges::count_if(runs, [&](uint32_t run) {
      return num_documents_[run].load(std::memory_order_relaxed) > 0;
    });
    shares->push_back({static_cast<int64_t>(runs.size()), shared});
  }
}

// Returns the documents whose flag is set.
std::vector<uint32_t> Flagged(std::span<const uint32_t> documents, std::span<const uint8_t> flags) {
  std::vector<uint32_t> flagged;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (flags[i] != 0) flagged.push_back(documents[i]);
  }
  return flagged;
}

// Finds the overlaps with one block of held-out documents; adds the documents that share any of its
// runs to `touched`.
absl::Status FindInBlock(const DocumentStore& documents, std::span<const uint32_t> training,
                         std::span<const uint32_t> heldout, const ContainmentOptions& options,
                         const ProgressCallback& progress, std::vector<uint8_t>* touched,
                         OverlapByDocument* overlaps) {
  BlockComparison block(documents, heldout, options);
  std::vector<uint8_t> here;
  RETURN_IF_ERROR(block.CountDocuments(training, progress, &here));
  for (size_t i = 0; i < here.size(); ++i) (*touched)[i] |= here[i];
  return block.FindOverlaps(Flagged(training, here), progress, overlaps);
}

void AddJaccard(const DocumentStore& documents, std::vector<HeldoutOverlap>* overlaps) {
  ParallelFor(static_cast<int64_t>(overlaps->size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      HeldoutOverlap& overlap = (*overlaps)[static_cast<size_t>(i)];
      overlap.jaccard = TextJaccard(documents, overlap.document, overlap.heldout);
    }
  });
}

}  // namespace

absl::StatusOr<Containment> FindContainment(const DocumentStore& documents,
                                            std::span<const uint32_t> training,
                                            std::span<const uint32_t> heldout,
                                            const ContainmentOptions& options,
                                            const ProgressCallback& progress) {
  const auto blocks = HeldoutBlocks(documents, heldout, options.max_index_bytes);
  std::vector<uint8_t> touched(training.size(), options.min_share > 1 ? 1 : 0);
  OverlapByDocument overlaps;
  for (const std::span<const uint32_t> block : blocks) {
    if (options.min_share > 1) break;
    RETURN_IF_ERROR(
        FindInBlock(documents, training, block, options, progress, &touched, &overlaps));
  }
  Containment found;
  for (const auto& [document, overlap] : overlaps) found.overlaps.push_back(overlap);
  AddJaccard(documents, &found.overlaps);
  std::vector<uint32_t> remaining = Flagged(training, touched);
  std::erase_if(remaining, [&](uint32_t document) { return overlaps.contains(document); });
  for (const std::span<const uint32_t> block : blocks) {
    BlockComparison comparison(documents, block, options);
    RETURN_IF_ERROR(comparison.CountDocuments(remaining, progress, &touched));
    comparison.AppendShares(&found.shares);
  }
  return found;
}

}  // namespace braid
