#include "formats/word_encoder.h"

#include <utility>

#include "absl/strings/string_view.h"

namespace braid {
namespace {

constexpr size_t kMaxWordBytes = 64;   // longer words seldom repeat
constexpr size_t kBytesPerEntry = 80;  // approximate size of a table entry
constexpr std::string_view kWordEncoderSpaceSymbol = "\xE2\x96\x81";

}  // namespace

WordEncoder::WordEncoder(const Tokenizer& tokenizer, size_t max_bytes)
    : tokenizer_(tokenizer), max_bytes_(max_bytes / 2) {
  if (tokenizer_.word_boundaries() == nullptr) return;
  num_mark_tokens_ = tokenizer_.Encode({&tokenizer_.word_boundaries()->mark, 1}).size();
  for (size_t c = 0; c < characters_.size(); ++c) {
    const char character = static_cast<char>(c);
    EncodeAlone({&character, 1}, &characters_[c]);
  }
}

void WordEncoder::Encode(std::string_view text, std::vector<int32_t>* ids) {
  const bool has_pieces = tokenizer_.ForEachPiece(
      text, [&](std::string_view piece) { EncodeWord(piece, ids); },
      [&](int32_t token) { ids->push_back(token); });
  if (has_pieces) return;
  // The tokenizer handles a literal U+2581 specially, and an empty text has no dummy space.
  const bool cut = tokenizer_.word_boundaries() != nullptr && !text.empty() &&
                   text.find(kWordEncoderSpaceSymbol) == std::string_view::npos;
  if (cut) return EncodeCut(text, ids);
  const std::vector<int32_t> whole = tokenizer_.Encode(text);
  ids->insert(ids->end(), whole.begin(), whole.end());
}

void WordEncoder::EncodeCut(std::string_view text, std::vector<int32_t>* ids) {
  const WordBoundaries& boundaries = *tokenizer_.word_boundaries();
  spaced_.assign(1, ' ');  // the dummy space
  spaced_.append(text);
  const std::string_view spaced = spaced_;
  size_t begin = 0;
  for (size_t end = 1; end <= spaced.size(); ++end) {
    if (end < spaced.size() && !boundaries.CanCut(spaced[end - 1], spaced[end])) continue;
    EncodeWord(spaced.substr(begin, end - begin), ids);
    begin = end;
  }
}

void WordEncoder::EncodeWord(std::string_view word, std::vector<int32_t>* ids) {
  const auto first = static_cast<uint8_t>(word[0]);
  if (word.size() == 1 && first < characters_.size() && !characters_[first].empty()) {
    ids->insert(ids->end(), characters_[first].begin(), characters_[first].end());
    return;
  }
  if (word.size() <= kMaxWordBytes && Recall(newer_, word, ids)) return;
  const size_t begin = ids->size();
  if (word.size() > kMaxWordBytes || !Recall(older_, word, ids)) {
    EncodeAlone(word, ids);
  }
  if (word.size() <= kMaxWordBytes) Remember(word, ids->data() + begin, ids->size() - begin);
}

bool WordEncoder::Recall(const Memory& memory, std::string_view word,
                         std::vector<int32_t>* ids) const {
  if (memory.words.empty()) return false;
  const auto found = memory.words.find(absl::string_view(word.data(), word.size()));
  if (found == memory.words.end()) return false;
  const int32_t* tokens = memory.tokens.data() + found->second.begin;
  ids->insert(ids->end(), tokens, tokens + found->second.size);
  return true;
}

void WordEncoder::Remember(std::string_view word, const int32_t* tokens, size_t num_tokens) {
  if (newer_.num_bytes > max_bytes_) older_ = std::exchange(newer_, {});
  newer_.words.emplace(std::string(word), Memory::Run{static_cast<uint32_t>(newer_.tokens.size()),
                                                      static_cast<uint32_t>(num_tokens)});
  newer_.tokens.insert(newer_.tokens.end(), tokens, tokens + num_tokens);
  newer_.num_bytes += word.size() + num_tokens * sizeof(int32_t) + kBytesPerEntry;
}

// A SentencePiece model puts a dummy space before a text. Here it replaces the first space of the
// word, or is removed together with the mark, with which no piece joins anything.
void WordEncoder::EncodeAlone(std::string_view word, std::vector<int32_t>* ids) const {
  const WordBoundaries* const boundaries = tokenizer_.word_boundaries();
  if (boundaries == nullptr) return tokenizer_.EncodePiece(word, ids);
  if (word == " ") return ids->push_back(boundaries->space_token);
  if (word[0] == ' ') return tokenizer_.EncodePiece(word.substr(1), ids);
  std::string marked(1, boundaries->mark);
  marked.append(word);
  const std::vector<int32_t> tokens = tokenizer_.Encode(marked);
  ids->insert(ids->end(), tokens.begin() + static_cast<int64_t>(num_mark_tokens_), tokens.end());
}

}  // namespace braid
