#include "retrieval/wordpiece_tokenizer.h"

#include <unicode/utf8.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "retrieval/bert_characters.h"
#include "retrieval/wordpiece_json.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kWordpieceTokenizerDeepestLevel = 16;
constexpr int kMaxWordCharacters = 100;  // longer words are [UNK]
constexpr size_t kMaxWordBytes = 4 * kMaxWordCharacters;

// The word being read. Of a word that is too long only the length is kept.
class Word {
 public:
  bool empty() const { return num_characters_ == 0; }
  bool too_long() const { return num_characters_ > kMaxWordCharacters; }
  std::string_view text() const { return {bytes_.data(), size_}; }
  void Clear() {
    size_ = 0;
    num_characters_ = 0;
  }

  void Add(std::string_view text, int num_characters) {
    num_characters_ += num_characters;
    if (too_long()) return;
    std::memcpy(bytes_.data() + size_, text.data(), text.size());
    size_ += text.size();
  }

 private:
  std::array<char, kMaxWordBytes> bytes_;
  size_t size_ = 0;
  int64_t num_characters_ = 0;
};

// The encoding of one text. A run is a maximal part of the text without spaces and ideographs. If
// the form of a character depends on its neighbors, its run is encoded again as a whole.
class Reading {
 public:
  Reading(const WordPieceVocabulary& vocabulary, const BertCharacters& characters,
          std::string_view text, size_t max_ids)
      : vocabulary_(vocabulary), characters_(characters), text_(text), max_ids_(max_ids) {
    ids_.reserve(std::min(max_ids + 1, text.size() / 4 + 8));
    ids_.push_back(vocabulary.classify_id());
  }

  WordPieces Finish() && {
    while (at_ < text_.size() && !full()) Advance();
    EndWord();
    const bool truncated = full();
    if (truncated) ids_.resize(max_ids_);
    ids_.push_back(vocabulary_.separate_id());
    return {std::move(ids_), truncated};
  }

 private:
  // More ids than fit; the rest of the text can be skipped.
  bool full() const { return ids_.size() > max_ids_; }

  void Advance() {
    const size_t begin = at_;
    UChar32 character;
    U8_NEXT(text_.data(), at_, text_.size(), character);
    if (character < 0) return;
    const NormalizedCharacter found = characters_.Find(character, &buffer_);
    switch (found.kind) {
      case CharacterKind::kWord:
        return word_.Add(found.text, found.num_characters);
      case CharacterKind::kDropped:
        return;
      case CharacterKind::kPunctuation:
        return AddWhole(found);
      case CharacterKind::kSpace:
        return EndRun(at_);
      case CharacterKind::kIdeograph:
        EndRun(begin);
        AddWhole(found);
        return EndRun(at_);
      case CharacterKind::kContextual:
        return ReadRunAgain();
    }
  }

  void EndWord() {
    if (word_.empty()) return;
    if (word_.too_long()) {
      ids_.push_back(vocabulary_.unknown_id());
    } else {
      vocabulary_.AppendPieces(word_.text(), &ids_);
    }
    word_.Clear();
  }

  void AddWhole(const NormalizedCharacter& character) {
    EndWord();
    word_.Add(character.text, character.num_characters);
    EndWord();
  }

  void EndRun(size_t next) {
    EndWord();
    run_begin_ = next;
    run_ids_ = ids_.size();
  }

  size_t FindRunEnd() {
    for (size_t i = at_; i < text_.size();) {
      const size_t begin = i;
      UChar32 character;
      U8_NEXT(text_.data(), i, text_.size(), character);
      if (character < 0) continue;
      const CharacterKind kind = characters_.Find(character, &buffer_).kind;
      if (kind == CharacterKind::kSpace || kind == CharacterKind::kIdeograph) return begin;
    }
    return text_.size();
  }

  void ReadRunAgain() {
    const size_t end = FindRunEnd();
    word_.Clear();
    ids_.resize(run_ids_);
    for (const int32_t character :
         characters_.NormalizeRun(text_.substr(run_begin_, end - run_begin_))) {
      size_t size = 0;
      U8_APPEND_UNSAFE(buffer_.data(), size, character);
      const NormalizedCharacter whole = {CharacterKind::kWord, 1, {buffer_.data(), size}};
      if (BertCharacters::IsPunctuation(character)) {
        AddWhole(whole);
      } else {
        word_.Add(whole.text, 1);
      }
    }
    at_ = end;
    EndRun(end);
  }

  const WordPieceVocabulary& vocabulary_;
  const BertCharacters& characters_;
  const std::string_view text_;
  const size_t max_ids_;  // without [SEP]
  std::vector<int32_t> ids_;
  size_t at_ = 0;         // next byte of text_
  size_t run_begin_ = 0;  // first byte of the run
  size_t run_ids_ = 1;    // ids before the run
  Word word_;
  NormalizedBuffer buffer_;
};

absl::StatusOr<Json> ReadSettings(const std::filesystem::path& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return Json::object();
  RETURN_IF_ERROR(text.status());
  return ParseStrictJsonObject(*text, kWordpieceTokenizerDeepestLevel, path);
}

// Reads a tokenizer.json, which must agree with `lower_case` of other settings, if any.
absl::StatusOr<WordPieceTokenizer> LoadJson(const std::filesystem::path& path,
                                            std::optional<bool> lower_case) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(WordPieceTokenizer tokenizer, ParseWordPieceJson(text, path));
  const WordPieceVocabulary& vocabulary = tokenizer.vocabulary();
  if (vocabulary.classify_id() == vocabulary.unknown_id() ||
      vocabulary.separate_id() == vocabulary.unknown_id()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": model: vocab: got no [CLS] or no [SEP], expected both pieces"));
  }
  if (lower_case.value_or(tokenizer.lower_case()) != tokenizer.lower_case()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": normalizer: lowercase: got ", tokenizer.lower_case() ? "true" : "false",
        ", expected do_lower_case of tokenizer_config.json beside it"));
  }
  return tokenizer;
}

}  // namespace

absl::StatusOr<WordPieceTokenizer> WordPieceTokenizer::Load(
    const std::filesystem::path& directory) {
  const std::filesystem::path settings_path = directory / "tokenizer_config.json";
  ASSIGN_OR_RETURN(const Json settings, ReadSettings(settings_path));
  JsonFields fields(settings, settings_path.string());
  // Null would be absent for JsonFields, but false for the tokenizers of Hugging Face.
  const bool is_clear =
      !settings.contains("do_lower_case") || settings["do_lower_case"].is_boolean();
  fields.Require(is_clear, "do_lower_case", "true or false");
  const bool lower_case = fields.Flag("do_lower_case", true);
  // BERT strips accents if and only if it lower-cases, unless the setting says otherwise.
  fields.RequireOnly("strip_accents", lower_case, " or nothing");
  fields.RequireOnly("tokenize_chinese_chars", true, " or nothing");
  RETURN_IF_ERROR(fields.status());
  const std::filesystem::path path = directory / "vocab.txt";
  std::error_code error;
  if (!std::filesystem::exists(path, error) &&
      std::filesystem::exists(directory / "tokenizer.json", error)) {
    return LoadJson(directory / "tokenizer.json",
                    settings.contains("do_lower_case") ? std::optional(lower_case) : std::nullopt);
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(WordPieceVocabulary vocabulary, WordPieceVocabulary::Parse(text, path));
  return WordPieceTokenizer(std::move(vocabulary), lower_case);
}

WordPieces WordPieceTokenizer::Encode(std::string_view text, int32_t max_tokens) const {
  BRAID_CHECK(max_tokens >= 2) << max_tokens;
  return Reading(vocabulary_, BertCharacters::Get(lower_case_), text,
                 static_cast<size_t>(max_tokens) - 1)
      .Finish();
}

std::string WordPieceTokenizer::Settings() const {
  return absl::StrCat("vocabulary=", vocabulary_.digest(), " lower_case=", lower_case_ ? 1 : 0,
                      " unicode=", UnicodeVersion());
}

}  // namespace braid
