#include "pipeline/ordering/evaluation_overlap.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "formats/word_runs.h"
#include "pipeline/ordering/document_blocks.h"
#include "pipeline/ordering/word_run_index.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr size_t kMinTextWords = 7;

// Returns whether enough words of a run have a character other than digits.
bool IsText(std::string_view words) {
  size_t text_words = 0;
  bool counted = false;
  for (const char c : words) {
    if (c == ' ') {
      counted = false;
    } else if (!counted && (c < '0' || c > '9')) {
      counted = true;
      ++text_words;
    }
    if (text_words == kMinTextWords) return true;
  }
  // Ideographs are words without spaces between them.
  return words.find(' ') == words.npos;
}

// The comparison of all documents with one block of texts.
class EvaluationBlock {
 public:
  EvaluationBlock(std::span<const EvaluationPassage> texts, uint32_t first_text)
      : texts_(texts), first_text_(first_text), index_(Views(texts)), found_(index_.num_runs()) {
    for (uint32_t run = 0; run < index_.num_runs(); ++run)
      is_text_.push_back(IsText(index_.words(run)));
  }

  absl::Status Compare(const DocumentStore& documents, std::span<const uint32_t> candidates,
                       const ProgressCallback& progress,
                       std::map<uint32_t, EvaluationMatch>* matches);
  void Report(EvaluationOverlap* overlap) const;

 private:
  static std::vector<std::string_view> Views(std::span<const EvaluationPassage> texts) {
    std::vector<std::string_view> views;
    for (const EvaluationPassage& text : texts) views.push_back(text.text);
    return views;
  }

  // Returns the distinct runs that a document shares.
  void FindShared(std::string_view text, std::vector<uint32_t>* runs) const;
  EvaluationMatch Describe(uint32_t document, std::span<const uint32_t> runs) const;

  const std::span<const EvaluationPassage> texts_;
  const uint32_t first_text_;
  const WordRunIndex index_;
  std::vector<bool> is_text_;                // by run
  std::vector<std::atomic<uint8_t>> found_;  // by run: whether a document has it
};

void EvaluationBlock::FindShared(std::string_view text, std::vector<uint32_t>* runs) const {
  index_.Find(text, runs);
  std::erase_if(*runs,
                [&](uint32_t run) { return run == WordRunIndex::kUnknown || !is_text_[run]; });
  std::ranges::sort(*runs);
  runs->erase(std::unique(runs->begin(), runs->end()), runs->end());
}

EvaluationMatch EvaluationBlock::Describe(uint32_t document, std::span<const uint32_t> runs) const {
  // Runs are numbered in text order, so that the first run is in the first text.
  EvaluationMatch match{.document = document,
                        .text = first_text_ + index_.texts_with(runs[0])[0],
                        .words = std::string(index_.words(runs[0])),
                        .files = {}};
  for (const uint32_t run : runs) {
    for (const uint32_t text : index_.texts_with(run)) match.files.insert(texts_[text].file);
  }
  return match;
}

absl::Status EvaluationBlock::Compare(const DocumentStore& documents,
                                      std::span<const uint32_t> candidates,
                                      const ProgressCallback& progress,
                                      std::map<uint32_t, EvaluationMatch>* matches) {
  return ForDocumentBlocks(documents, candidates, progress, [&](int64_t begin, int64_t end) {
    std::vector<std::vector<uint32_t>> shared(static_cast<size_t>(end - begin));
    ParallelFor(end - begin, DocumentGrain(end - begin), [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        std::vector<uint32_t>& runs = shared[static_cast<size_t>(i)];
        FindShared(documents.text(candidates[static_cast<size_t>(begin + i)]), &runs);
        for (const uint32_t run : runs) found_[run].store(1, std::memory_order_relaxed);
      }
    });
    for (size_t i = 0; i < shared.size(); ++i) {
      if (shared[i].empty()) continue;
      const uint32_t document = candidates[static_cast<size_t>(begin) + i];
      EvaluationMatch match = Describe(document, shared[i]);
      const auto [known, is_new] = matches->try_emplace(document, match);
      if (!is_new) known->second.files.merge(match.files);
    }
  });
}

void EvaluationBlock::Report(EvaluationOverlap* overlap) const {
  for (uint32_t text = 0; text < index_.num_texts(); ++text) {
    const std::span<const uint32_t> runs = index_.runs_of(text);
    overlap->has_runs.push_back(!runs.empty());
    overlap->matched.push_back(std::ranges::any_of(
        runs, [&](uint32_t run) { return found_[run].load(std::memory_order_relaxed) != 0; }));
  }
  for (uint32_t run = 0; run < index_.num_runs(); ++run) {
    if (found_[run].load(std::memory_order_relaxed) != 0) overlap->runs.push_back(index_.hash(run));
  }
}

}  // namespace

absl::StatusOr<EvaluationOverlap> FindEvaluationOverlap(const DocumentStore& documents,
                                                        std::span<const uint32_t> candidates,
                                                        std::span<const EvaluationPassage> texts,
                                                        const ProgressCallback& progress,
                                                        int64_t max_index_bytes) {
  EvaluationOverlap overlap;
  std::map<uint32_t, EvaluationMatch> matches;
  for (size_t begin = 0, end = 0; begin < texts.size(); begin = end) {
    int64_t bytes = 0;
    do {
      bytes += static_cast<int64_t>(texts[end++].text.size());
    } while (end < texts.size() &&
             bytes + static_cast<int64_t>(texts[end].text.size()) <= max_index_bytes);
    EvaluationBlock block(texts.subspan(begin, end - begin), static_cast<uint32_t>(begin));
    RETURN_IF_ERROR(block.Compare(documents, candidates, progress, &matches));
    block.Report(&overlap);
  }
  for (auto& [document, match] : matches) overlap.matches.push_back(std::move(match));
  std::ranges::sort(overlap.runs);
  const auto repeated = std::ranges::unique(overlap.runs);
  overlap.runs.erase(repeated.begin(), repeated.end());
  return overlap;
}

}  // namespace braid
