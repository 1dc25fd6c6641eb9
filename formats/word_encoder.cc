#include "formats/word_encoder.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace braid {
namespace {

// Longer runs without white space seldom repeat.
constexpr size_t kMaxWordBytes = 48;
constexpr size_t kBytesPerEntry = 64;  // of the table, about
constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

}  // namespace

WordEncoder::WordEncoder(const Tokenizer& tokenizer, size_t max_bytes)
    : tokenizer_(tokenizer), max_bytes_(max_bytes) {}

bool WordEncoder::IsLineMark(char c) const {
  return tokenizer_.word_boundaries().at_line_marks && (c == '\n' || c == '\t' || c == '\r');
}

void WordEncoder::Encode(std::string_view text, std::vector<int32_t>* ids) {
  // A literal U+2581 has rules of its own.
  if (!tokenizer_.word_boundaries().at_spaces ||
      text.find(kSpaceSymbol) != std::string_view::npos) {
    const std::vector<int32_t> whole = tokenizer_.Encode(text);
    ids->insert(ids->end(), whole.begin(), whole.end());
    return;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = PartEnd(text, begin);
    EncodePart(text.substr(begin, end - begin), begin == 0, ids);
    begin = end;
  }
}

// A part is a run of spaces or of line marks, or nothing at the beginning of a text, and
// then characters up to the next space or line mark.
size_t WordEncoder::PartEnd(std::string_view text, size_t begin) const {
  size_t end = begin;
  if (text[begin] == ' ') {
    while (end < text.size() && text[end] == ' ') ++end;
  } else {
    while (end < text.size() && IsLineMark(text[end])) ++end;
  }
  while (end < text.size() && text[end] != ' ' && !IsLineMark(text[end])) ++end;
  return end;
}

// Every part is encoded as a text of its own, which begins with a dummy space: the
// first part has it anyway, it stands for the first space of a part that has one, and
// before a line mark, with which it makes no piece, it is taken off.
void WordEncoder::EncodePart(std::string_view part, bool is_first, std::vector<int32_t>* ids) {
  if (IsLineMark(part[0])) {
    if (is_first) ids->push_back(tokenizer_.word_boundaries().space_token);
    EncodeWord(part, 1, ids);
  } else if (is_first) {
    EncodeWord(part, 0, ids);
  } else if (part.size() == 1) {  // one space: nothing is left of it, and no text is no token
    ids->push_back(tokenizer_.word_boundaries().space_token);
  } else {
    EncodeWord(part.substr(1), 0, ids);
  }
}

void WordEncoder::EncodeWord(std::string_view word, size_t num_skipped, std::vector<int32_t>* ids) {
  std::vector<int32_t> encoded;
  std::span<const int32_t> tokens;
  const auto found = word.size() > kMaxWordBytes
                         ? words_.end()
                         : words_.find(absl::string_view(word.data(), word.size()));
  if (found != words_.end()) {
    tokens = std::span(tokens_).subspan(found->second.begin, found->second.size);
  } else {
    encoded = tokenizer_.Encode(word);
    tokens = word.size() > kMaxWordBytes ? encoded : Remember(word, encoded);
  }
  ids->insert(ids->end(), tokens.begin() + static_cast<int64_t>(num_skipped), tokens.end());
}

std::span<const int32_t> WordEncoder::Remember(std::string_view word,
                                               const std::vector<int32_t>& tokens) {
  if (word_bytes_ + tokens_.size() * sizeof(int32_t) > max_bytes_) {
    words_.clear();
    tokens_.clear();
    word_bytes_ = 0;
  }
  const TokenRun run = {static_cast<uint32_t>(tokens_.size()),
                        static_cast<uint32_t>(tokens.size())};
  words_.emplace(std::string(word), run);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  word_bytes_ += word.size() + kBytesPerEntry;
  return std::span(tokens_).subspan(run.begin, run.size);
}

}  // namespace braid
