#include "evaluation/probing/swapped_sentences.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/splitmix.h"
#include "evaluation/probing/sentences.h"

namespace braid {
namespace {

constexpr int kLeastClauseWords = 3;

bool IsPlain(std::string_view word) {
  return std::ranges::all_of(word, [](char c) { return absl::ascii_islower(c); });
}

// Returns where the only coordination is, and its length; nullopt without exactly one.
std::optional<std::pair<size_t, size_t>> Coordination(std::string_view sentence) {
  std::optional<std::pair<size_t, size_t>> found;
  for (const std::string_view mark : {", and ", ", but ", "; "}) {
    const size_t at = sentence.find(mark);
    if (at == sentence.npos) continue;
    if (found.has_value()) return std::nullopt;
    found = {at, mark.size()};
  }
  if (!found.has_value()) return std::nullopt;
  const auto marks = std::ranges::count_if(sentence, [](char c) {
    return std::string_view(",;:\"()").find(c) != std::string_view::npos;
  });
  return marks == 1 ? found : std::nullopt;
}

}  // namespace

std::optional<std::string> SwapWords(std::string_view sentence) {
  std::vector<std::string_view> words = WordsOf(sentence);
  std::vector<size_t> places;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (IsPlain(words[i]) && IsPlain(words[i + 1]) && words[i] != words[i + 1]) places.push_back(i);
  }
  if (places.empty()) return std::nullopt;
  const size_t place = places[Mix64(1, sentence) % places.size()];
  std::swap(words[place], words[place + 1]);
  std::string swapped(words[0]);
  for (size_t i = 1; i < words.size(); ++i) swapped.append(" ").append(words[i]);
  return swapped;
}

std::optional<std::string> SwapClauses(
    std::string_view sentence, const std::function<bool(std::string_view)>& is_lower_case) {
  const auto place = Coordination(sentence);
  const std::string_view end = sentence.substr(sentence.size() - 1);
  if (!place.has_value() || std::string_view(".!?").find(end[0]) == std::string_view::npos) {
    return std::nullopt;
  }
  const auto [at, size] = *place;
  std::string first(sentence.substr(0, at));
  std::string second(sentence.substr(at + size));
  second.pop_back();
  if (std::ssize(WordsOf(first)) < kLeastClauseWords ||
      std::ssize(WordsOf(second)) < kLeastClauseWords || !absl::ascii_isalpha(second[0])) {
    return std::nullopt;
  }
  if (is_lower_case(WordsOf(first)[0])) first[0] = absl::ascii_tolower(first[0]);
  second[0] = absl::ascii_toupper(second[0]);
  return second.append(sentence.substr(at, size)).append(first).append(end);
}

}  // namespace braid
