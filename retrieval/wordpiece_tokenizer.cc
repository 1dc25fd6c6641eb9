#include "retrieval/wordpiece_tokenizer.h"

#include <unicode/utf8.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "retrieval/bert_characters.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kWordpieceTokenizerDeepestLevel = 16;
constexpr int kMaxWordCharacters = 100;  // longer words are [UNK]
constexpr size_t kMaxWordBytes = 4 * kMaxWordCharacters;

// The word being read; of one that is too long only that is remembered.
class Word {
 public:
  bool empty() const { return num_characters_ == 0; }
  bool too_long() const { return num_characters_ > kMaxWordCharacters; }
  std::string_view text() const { return {bytes_.data(), size_}; }
  void Clear() {
    size_ = 0;
    num_characters_ = 0;
  }

  void AddAscii(char c) {
    ++num_characters_;
    if (!too_long()) bytes_[size_++] = c;
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

// One text on its way to ids. A run is a stretch without spaces and ideographs; a
// character whose form depends on its neighbours makes its run be read again as a whole.
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
  // More ids than fit: the rest of the text does not matter.
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
  absl::StatusOr<Json> json = ParseStrictJson(*text, kWordpieceTokenizerDeepestLevel);
  if (json.ok() && json->is_object()) return json;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": ", json.ok() ? "not a JSON object" : json.status().message()));
}

absl::Status RequireUsual(const Json& settings, const std::filesystem::path& path,
                          const char* field, const Json& usual) {
  if (!settings.contains(field) || settings[field].is_null() || settings[field] == usual) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", field, ": got ",
                                                 settings[field].dump(), ", expected ",
                                                 usual.dump(), " or nothing"));
}

}  // namespace

absl::StatusOr<WordPieceTokenizer> WordPieceTokenizer::Load(
    const std::filesystem::path& directory) {
  const std::filesystem::path settings_path = directory / "tokenizer_config.json";
  ASSIGN_OR_RETURN(const Json settings, ReadSettings(settings_path));
  const Json lower_case = settings.value("do_lower_case", Json(true));
  if (!lower_case.is_boolean()) {
    return absl::InvalidArgumentError(absl::StrCat(settings_path.string(), ": do_lower_case: got ",
                                                   lower_case.dump(), ", expected true or false"));
  }
  // Accents go with upper case, unless told otherwise.
  RETURN_IF_ERROR(RequireUsual(settings, settings_path, "strip_accents", lower_case));
  RETURN_IF_ERROR(RequireUsual(settings, settings_path, "tokenize_chinese_chars", true));
  const std::filesystem::path path = directory / "vocab.txt";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(WordPieceVocabulary vocabulary, WordPieceVocabulary::Parse(text, path));
  return WordPieceTokenizer(std::move(vocabulary), lower_case.get<bool>());
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
