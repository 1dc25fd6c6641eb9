#include "pipeline/ordering/word_run_index.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "formats/word_runs.h"

namespace braid {

WordRunIndex::WordRunIndex(std::span<const std::string_view> texts)
    : slots_(1024), text_begins_({0}) {
  for (const std::string_view text : texts) AddText(text);
  ListTexts();
}

// Returns the slot of a run: the one that holds it, else the empty one where it belongs.
size_t WordRunIndex::SlotOf(uint64_t hash, std::string_view words) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot] != 0) {
    const uint32_t run = slots_[slot] - 1;
    if (run_hashes_[run] == hash && this->words(run) == words) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void WordRunIndex::AddText(std::string_view text) {
  WordRuns found(NormalizeText(text));
  const size_t base = normalized_.size();
  normalized_ += found.normalized();
  BRAID_CHECK(normalized_.size() < std::numeric_limits<uint32_t>::max()) << normalized_.size();
  while (found.Next()) {
    const size_t slot = SlotOf(found.hash(), found.text());
    if (slots_[slot] != 0) {
      runs_.push_back(slots_[slot] - 1);
      continue;
    }
    runs_.push_back(num_runs());
    run_hashes_.push_back(found.hash());
    run_begins_.push_back(static_cast<uint32_t>(base + found.begin()));
    run_lengths_.push_back(static_cast<uint32_t>(found.text().size()));
    slots_[slot] = num_runs();
    if (run_hashes_.size() * 2 > slots_.size()) Grow();
  }
  text_begins_.push_back(runs_.size());
}

void WordRunIndex::Grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (uint32_t run = 0; run < num_runs(); ++run) {
    slots_[SlotOf(run_hashes_[run], words(run))] = run + 1;
  }
}

void WordRunIndex::ListTexts() {
  posting_begins_.assign(size_t{num_runs()} + 1, 0);
  for (const uint32_t run : runs_) ++posting_begins_[run + 1];
  for (size_t i = 1; i < posting_begins_.size(); ++i) posting_begins_[i] += posting_begins_[i - 1];
  postings_.resize(runs_.size());
  std::vector<size_t> next(posting_begins_.begin(), posting_begins_.end() - 1);
  for (uint32_t text = 0; text < num_texts(); ++text) {
    for (const uint32_t run : runs_of(text)) postings_[next[run]++] = text;
  }
}

void WordRunIndex::Find(std::string_view text, std::vector<uint32_t>* runs) const {
  runs->clear();
  for (WordRuns found(NormalizeText(text)); found.Next();) {
    const uint32_t entry = slots_[SlotOf(found.hash(), found.text())];
    runs->push_back(entry == 0 ? kUnknown : entry - 1);
  }
}

}  // namespace braid
