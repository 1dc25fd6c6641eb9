#include "formats/word_encoder.h"

#include <cstring>
#include <span>
#include <utility>

#include "formats/word_boundaries.h"

namespace braid {

WordEncoder::WordEncoder(const Tokenizer& tokenizer, size_t max_bytes)
    : tokenizer_(tokenizer), cache_(max_bytes) {
  if (const WordBoundaries* const boundaries = tokenizer_.word_boundaries()) {
    num_mark_tokens_ = tokenizer_.Encode({&boundaries->mark, 1}).size();
  }
  for (size_t c = 0; c < characters_.size(); ++c) {
    const char character = static_cast<char>(c);
    EncodeAlone({&character, 1}, &characters_[c]);
  }
}

void WordEncoder::Encode(std::string_view text, std::vector<int32_t>* ids) {
  num_waiting_ = 0;  // a call that threw may have left words
  const bool has_pieces = tokenizer_.ForEachPiece(
      text, [&](std::string_view piece) { Add(piece, ids); },
      [&](int32_t token) {
        EncodeWaiting(ids);
        ids->push_back(token);
      });
  if (has_pieces) return EncodeWaiting(ids);
  // The tokenizer handles a literal U+2581 specially, and an empty text has no dummy space.
  const bool cut = tokenizer_.word_boundaries() != nullptr && !text.empty() &&
                   text.find(kSpaceSymbol) == std::string_view::npos;
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
    Add(spaced.substr(begin, end - begin), ids);
    begin = end;
  }
  EncodeWaiting(ids);
}

// Lets a word wait until its place in the cache is loaded. The bytes are copied, since those of
// normalized text live only during the call of ForEachPiece.
void WordEncoder::Add(std::string_view word, std::vector<int32_t>* ids) {
  if (word.size() > kMaxWordBytes) {
    EncodeWaiting(ids);
    return EncodeAlone(word, ids);
  }
  Word& waiting = waiting_[num_waiting_++];
  waiting.size = word.size();
  waiting.hash = 0;
  std::memcpy(waiting.bytes.data(), word.data(), word.size());
  if (word.size() > 1) {
    waiting.hash = WordCache::Hash(word);
    cache_.Prefetch(waiting.hash);
  }
  if (num_waiting_ == waiting_.size()) EncodeWaiting(ids);
}

void WordEncoder::EncodeWaiting(std::vector<int32_t>* ids) {
  for (size_t i = 0; i < num_waiting_; ++i) {
    const Word& word = waiting_[i];
    EncodeWord({word.bytes.data(), word.size}, word.hash, ids);
  }
  num_waiting_ = 0;
}

void WordEncoder::EncodeWord(std::string_view word, uint64_t hash, std::vector<int32_t>* ids) {
  if (word.size() == 1) {
    const std::vector<int32_t>& tokens = characters_[static_cast<uint8_t>(word[0])];
    ids->insert(ids->end(), tokens.begin(), tokens.end());
    return;
  }
  if (cache_.Append(word, hash, ids)) return;
  const size_t begin = ids->size();
  EncodeAlone(word, ids);
  cache_.Insert(word, hash, std::span(*ids).subspan(begin));
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

std::unique_ptr<WordEncoder> WordEncoderPool::Borrow() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<WordEncoder> encoder = std::move(idle_.back());
      idle_.pop_back();
      return encoder;
    }
  }
  return std::make_unique<WordEncoder>(tokenizer_, bytes_each_);
}

void WordEncoderPool::Return(std::unique_ptr<WordEncoder> encoder) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(encoder));
}

}  // namespace braid
