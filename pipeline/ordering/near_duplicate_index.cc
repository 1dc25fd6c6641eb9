#include "pipeline/ordering/near_duplicate_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "pipeline/ordering/deduplicate.h"

namespace braid {
namespace {

std::vector<uint64_t> GramsOf(std::string_view text) {
  return CharacterNgrams(NormalizeText(text));
}

// Returns whether two ascending sets have at least `needed` elements in common. Stops as soon as
// too many elements of either are missing from the other, which is early for dissimilar texts.
bool HaveInCommon(std::span<const uint64_t> a, std::span<const uint64_t> b, size_t needed) {
  if (std::min(a.size(), b.size()) < needed) return false;
  size_t a_spare = a.size() - needed, b_spare = b.size() - needed;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      ++i, ++j;
    } else if (a[i] < b[j]) {
      if (a_spare-- == 0) return false;
      ++i;
    } else {
      if (b_spare-- == 0) return false;
      ++j;
    }
  }
  return true;
}

// Removes repeated grams, with `seen` as the memory of an open-addressing hash set. Most texts have
// no candidate and so need distinct, but not sorted, grams. The grams are hashes and serve as their
// own hash values; 0 marks a free slot, and a gram of value 0 is handled separately.
void KeepDistinct(std::vector<uint64_t>* grams, std::vector<uint64_t>* seen) {
  const size_t mask = std::bit_ceil(2 * grams->size() + 1) - 1;
  seen->assign(mask + 1, 0);
  bool zero = false;
  std::erase_if(*grams, [&](uint64_t gram) {
    if (gram == 0) return std::exchange(zero, true);
    size_t at = gram & mask;
    while ((*seen)[at] != 0 && (*seen)[at] != gram) at = (at + 1) & mask;
    return std::exchange((*seen)[at], gram) == gram;
  });
}

}  // namespace

NearDuplicateIndex::NearDuplicateIndex(std::span<const std::string_view> texts, double min_jaccard)
    : min_jaccard_(min_jaccard), begins_(1, 0) {
  BRAID_CHECK(min_jaccard > 0 && min_jaccard <= 1) << min_jaccard;
  for (const std::string_view text : texts) {
    const std::vector<uint64_t> grams = GramsOf(text);
    grams_.insert(grams_.end(), grams.begin(), grams.end());
    begins_.push_back(grams_.size());
  }
  CountFrequencies();
  IndexPrefixes();
}

std::span<const uint64_t> NearDuplicateIndex::grams(uint32_t text) const {
  return std::span(grams_).subspan(begins_[text], begins_[text + 1] - begins_[text]);
}

// Returns the minimum number of grams that a set of this size shares with any near-duplicate. The
// epsilon corrects products that are integers except for rounding errors.
size_t NearDuplicateIndex::MinShared(size_t num_grams) const {
  return static_cast<size_t>(std::ceil(min_jaccard_ * static_cast<double>(num_grams) - 1e-6));
}

size_t NearDuplicateIndex::PrefixLength(size_t num_grams) const {
  return std::min(num_grams, num_grams - MinShared(num_grams) + kShared);
}

void NearDuplicateIndex::CountFrequencies() {
  frequencies_.assign(size_t{1} << (64 - kFrequencyShift), 0);
  for (const uint64_t gram : grams_) {
    uint8_t& count = frequency(gram);
    count = static_cast<uint8_t>(std::min(count + 1, 255));
  }
}

void NearDuplicateIndex::IndexPrefixes() {
  std::vector<std::pair<uint64_t, uint32_t>> postings;
  std::vector<std::pair<uint8_t, uint64_t>> ordered;
  for (uint32_t text = 0; text < num_texts(); ++text) {
    ordered.clear();
    for (const uint64_t gram : grams(text)) ordered.emplace_back(frequency(gram), gram);
    const auto prefix_end =
        ordered.begin() + static_cast<std::ptrdiff_t>(PrefixLength(ordered.size()));
    std::nth_element(ordered.begin(), prefix_end, ordered.end());
    for (auto i = ordered.begin(); i != prefix_end; ++i) postings.emplace_back(i->second, text);
  }
  std::sort(postings.begin(), postings.end());
  BRAID_CHECK(postings.size() < std::numeric_limits<uint32_t>::max()) << postings.size();
  const int bits = std::max(1, static_cast<int>(std::bit_width(postings.size())));
  directory_shift_ = 64 - bits;
  directory_.assign((size_t{1} << bits) + 1, 0);
  for (const auto& [gram, text] : postings) {
    posting_grams_.push_back(gram);
    posting_texts_.push_back(text);
    ++directory_[(gram >> directory_shift_) + 1];
  }
  for (size_t i = 1; i < directory_.size(); ++i) directory_[i] += directory_[i - 1];
}

// Counts in scratch->shared_ and touched_ the prefix grams that each text shares with `grams`.
void NearDuplicateIndex::CountShared(std::span<const uint64_t> grams, Scratch* scratch) const {
  std::vector<std::pair<uint8_t, uint64_t>>& known = scratch->known_;
  known.clear();
  for (const uint64_t gram : grams) {
    if (const uint8_t count = frequency(gram); count > 0) known.emplace_back(count, gram);
  }
  // Grams that occur in no text of the index are the rarest, so they come first in the prefix.
  const size_t unknown = grams.size() - known.size();
  const size_t prefix = PrefixLength(grams.size());
  if (unknown >= prefix) return;
  const auto prefix_end = known.begin() + static_cast<std::ptrdiff_t>(prefix - unknown);
  std::nth_element(known.begin(), prefix_end, known.end());
  for (auto i = known.begin(); i != prefix_end; ++i) {
    const uint64_t gram = i->second;
    const uint32_t end = directory_[(gram >> directory_shift_) + 1];
    for (uint32_t at = directory_[gram >> directory_shift_]; at < end; ++at) {
      if (posting_grams_[at] != gram) continue;
      const uint32_t text = posting_texts_[at];
      if (scratch->shared_[text]++ == 0) scratch->touched_.push_back(text);
    }
  }
}

bool NearDuplicateIndex::SharesEnough(size_t shared, size_t num_grams, uint32_t text) const {
  const size_t other = grams(text).size();
  const size_t larger = std::max(num_grams, other), smaller = std::min(num_grams, other);
  return smaller >= MinShared(larger) && shared >= std::min(kShared, MinShared(larger));
}

// Returns the minimum number of common grams with which sets of sizes a and b reach
// common / (a + b - common) >= min_jaccard.
size_t NearDuplicateIndex::MinCommon(size_t a, size_t b) const {
  const double needed = min_jaccard_ / (1 + min_jaccard_) * static_cast<double>(a + b);
  return static_cast<size_t>(std::ceil(needed - 1e-6));
}

// Returns the texts that share enough prefix grams, ascending, and resets the scratch memory.
std::vector<uint32_t> NearDuplicateIndex::TakeCandidates(size_t num_grams, Scratch* scratch) const {
  std::vector<uint32_t> candidates;
  for (const uint32_t text : scratch->touched_) {
    const size_t shared = std::exchange(scratch->shared_[text], 0);
    if (SharesEnough(shared, num_grams, text)) candidates.push_back(text);
  }
  scratch->touched_.clear();
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

std::optional<NearDuplicateIndex::Match> NearDuplicateIndex::Find(std::string_view text,
                                                                  Scratch* scratch) const {
  std::vector<uint64_t>& own = scratch->grams_;
  ListCharacterNgrams(NormalizeText(text), &own);
  KeepDistinct(&own, &scratch->seen_);
  CountShared(own, scratch);
  const std::vector<uint32_t> candidates = TakeCandidates(own.size(), scratch);
  if (!candidates.empty()) std::sort(own.begin(), own.end());
  for (const uint32_t candidate : candidates) {
    if (!HaveInCommon(own, grams(candidate), MinCommon(own.size(), grams(candidate).size()))) {
      continue;
    }
    const double jaccard = Jaccard(own, grams(candidate));
    if (jaccard >= min_jaccard_) return Match{candidate, jaccard};
  }
  return std::nullopt;
}

}  // namespace braid
