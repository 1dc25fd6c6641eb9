#include "evaluation/probing/word_classes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "evaluation/probing/sentences.h"

namespace braid {
namespace {

// Ranks from here on are never used.
constexpr int32_t kMostRanks = 3 * kMostWordClasses;

// Words of letters count; numbers do not.
bool IsCounted(std::string_view bare) {
  return !bare.empty() && std::ranges::all_of(bare, [](char c) {
    return absl::ascii_isalpha(c) || static_cast<unsigned char>(c) >= 0x80;
  });
}

}  // namespace

WordClasses::WordClasses(std::span<const std::string> sentences) {
  absl::flat_hash_map<std::string, int64_t> counts;
  for (const std::string& sentence : sentences) {
    for (const std::string_view word : WordsOf(sentence)) ++counts[BareWord(word)];
  }
  std::vector<std::pair<int64_t, std::string_view>> order;
  for (const auto& [word, count] : counts) {
    if (IsCounted(word)) order.push_back({-count, word});
  }
  std::ranges::sort(order);
  order.resize(std::min<size_t>(order.size(), kMostRanks));
  num_words_ = static_cast<int32_t>(order.size());
  absl::flat_hash_map<std::string_view, int32_t> ranks;
  for (int32_t rank = 0; rank < num_words_; ++rank) ranks[order[rank].second] = rank;
  for (const std::string& sentence : sentences) {
    std::vector<int32_t>& of_sentence = ranks_.emplace_back();
    for (const std::string_view word : WordsOf(sentence)) {
      const auto found = ranks.find(BareWord(word));
      if (found != ranks.end()) of_sentence.push_back(found->second);
    }
  }
}

std::vector<int32_t> WordClasses::From(int32_t first, int num_classes,
                                       std::vector<int64_t>* counts) const {
  std::vector<int32_t> classes;
  counts->assign(num_classes, 0);
  for (const std::vector<int32_t>& ranks : ranks_) {
    int found = 0;
    int32_t label = -1;
    for (const int32_t rank : ranks) {
      if (rank < first || rank >= first + num_classes) continue;
      label = rank - first;
      ++found;
    }
    classes.push_back(found == 1 ? label : -1);
    if (found == 1) ++(*counts)[label];
  }
  return classes;
}

std::optional<std::vector<int32_t>> WordClasses::Assign(int num_classes,
                                                        int64_t num_sentences) const {
  const int64_t needed = std::max<int64_t>(num_sentences / num_classes, 1);
  const int32_t step = std::max(1, num_classes / 4);
  for (int32_t first = 2 * num_classes; first >= 0; first -= step) {
    if (first + num_classes > num_words_) continue;
    std::vector<int64_t> counts;
    std::vector<int32_t> assigned = From(first, num_classes, &counts);
    if (*std::ranges::min_element(counts) >= needed) return assigned;
  }
  return std::nullopt;
}

}  // namespace braid
