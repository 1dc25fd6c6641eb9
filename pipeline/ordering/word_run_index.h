// An exact index of the runs of 13 words (formats/word_runs.h) of some texts. A lookup compares the
// words after their hash, so a hash collision never gives a false match.
//
//   WordRunIndex index(texts);
//   std::vector<uint32_t> runs;
//   index.Find(text, &runs);  // for each run of `text` its number, or WordRunIndex::kUnknown
//   index.runs_of(t)          // the runs of texts[t], by position
//   index.texts_with(run)     // the texts that have a run
//
// Memory: about 8 times the texts. Building and lookup take expected time linear in the text.
#ifndef BRAID_PIPELINE_ORDERING_WORD_RUN_INDEX_H_
#define BRAID_PIPELINE_ORDERING_WORD_RUN_INDEX_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// An immutable, thread-safe index. Distinct runs are numbered 0 .. num_runs() - 1 in text order.
class WordRunIndex {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  // Indexes the texts, which need not outlive the call. Requires: their total length is below 4
  // GiB.
  explicit WordRunIndex(std::span<const std::string_view> texts);

  // Stores in `runs` the number of each run of `text`, by position and with repeats, kUnknown for a
  // run that no indexed text has.
  void Find(std::string_view text, std::vector<uint32_t>* runs) const;

  // Returns the numbers of the runs of a text of the index, by position and with repeats.
  std::span<const uint32_t> runs_of(uint32_t text) const {
    return std::span(runs_).subspan(text_begins_[text],
                                    text_begins_[text + 1] - text_begins_[text]);
  }
  // Returns the texts that have a run, ascending; a text that has it several times is repeated.
  std::span<const uint32_t> texts_with(uint32_t run) const {
    return std::span(postings_).subspan(posting_begins_[run],
                                        posting_begins_[run + 1] - posting_begins_[run]);
  }
  // Returns the normalized words of a run, separated by spaces.
  std::string_view words(uint32_t run) const {
    return std::string_view(normalized_).substr(run_begins_[run], run_lengths_[run]);
  }
  uint64_t hash(uint32_t run) const { return run_hashes_[run]; }

  uint32_t num_texts() const { return static_cast<uint32_t>(text_begins_.size() - 1); }
  uint32_t num_runs() const { return static_cast<uint32_t>(run_hashes_.size()); }

 private:
  void AddText(std::string_view text);
  size_t SlotOf(uint64_t hash, std::string_view words) const;
  void Grow();
  void ListTexts();

  std::string normalized_;  // the normalized texts, concatenated
  // By distinct run: its hash and its first place in normalized_.
  std::vector<uint64_t> run_hashes_;
  std::vector<uint32_t> run_begins_, run_lengths_;
  std::vector<uint32_t> slots_;         // open addressing: 1 + run, 0 for an empty slot
  std::vector<uint32_t> runs_;          // by position, for all texts
  std::vector<size_t> text_begins_;     // [texts + 1] into runs_
  std::vector<uint32_t> postings_;      // texts by run
  std::vector<size_t> posting_begins_;  // [runs + 1] into postings_
};

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_WORD_RUN_INDEX_H_
