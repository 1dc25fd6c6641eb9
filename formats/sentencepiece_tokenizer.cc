#include "formats/sentencepiece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "formats/sentencepiece_library.h"
#include "formats/sentencepiece_model_check.h"
#include "formats/sentencepiece_settings.h"

namespace braid {
namespace {

constexpr size_t kBytePieceSize = std::string_view("<0x0A>").size();

// Receives a text, or the message of a call that failed.
void AssignText(void* context, const char* text, size_t size) {
  static_cast<std::string*>(context)->assign(text, size);
}

struct EncodeOutput {
  std::vector<int32_t> ids;
  std::string error;
  static void SinkIds(void* self, const int32_t* ids, size_t count) {
    static_cast<EncodeOutput*>(self)->ids.assign(ids, ids + count);
  }
  static void SinkError(void* self, const char* text, size_t size) {
    AssignText(&static_cast<EncodeOutput*>(self)->error, text, size);
  }
};

// Returns a character that pieces join with nothing else, where the model puts a space before texts
// or removes those at their beginning. Few models have pieces of a newline and other characters.
std::string GuardOf(std::string_view bytes, const WordBoundaries& boundaries) {
  if (boundaries.known) return std::string(1, boundaries.mark);
  const absl::StatusOr<SentencePieceSettings> settings = ReadSentencePieceSettings(bytes);
  const bool plain =
      settings.ok() && !settings->adds_dummy_space && !settings->removes_extra_spaces;
  return plain ? "" : "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceTokenizer::FromBytes(
    std::string_view bytes, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const SentencePieceApi* api, OpenSentencePiece());
  RETURN_IF_ERROR(CheckSentencePieceModel(path, bytes));
  std::string error;
  void* loaded = api->load(bytes.data(), bytes.size(), &error, AssignText);
  if (loaded == nullptr) {
    // Where protobuf cannot parse the model, the library's message is a line of its source.
    if (absl::StrContains(error, ".cc(")) error = "a field is damaged; copy the file again";
    return absl::InvalidArgumentError(absl::StrCat("cannot load SentencePiece model ",
                                                   path.string(), ": ", ReplaceInvalidUtf8(error)));
  }
  const WordBoundaries boundaries = FindWordBoundaries(bytes);
  auto tokenizer = std::unique_ptr<Tokenizer>(
      new SentencePieceTokenizer(api, loaded, boundaries, GuardOf(bytes, boundaries)));
  if (tokenizer->eos_id() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(),
                     ": the model has no end-of-sequence piece, which separates "
                     "documents; train it with eos_id >= 0"));
  }
  return tokenizer;
}

SentencePieceTokenizer::SentencePieceTokenizer(const SentencePieceApi* api, void* model,
                                               const WordBoundaries& word_boundaries,
                                               std::string guard)
    : Tokenizer({.vocab_size = api->piece_count(model),
                 .bos_id = api->bos_id(model),
                 .eos_id = api->eos_id(model)}),
      api_(api),
      model_(model),
      word_boundaries_(word_boundaries),
      guard_(std::move(guard)) {
  guard_tokens_ = EncodePlain(guard_);
  space_symbol_ = BytePieces(kSpaceSymbol);
}

SentencePieceTokenizer::~SentencePieceTokenizer() { api_->free(model_); }

std::vector<int32_t> SentencePieceTokenizer::EncodePlain(std::string_view text) const {
  EncodeOutput output;
  const int rc = api_->encode(model_, text.data(), text.size(), &output, EncodeOutput::SinkIds,
                              EncodeOutput::SinkError);
  BRAID_CHECK(rc == 0) << "encoding failed: " << output.error;
  return std::move(output.ids);
}

// A literal U+2581 would be decoded as a space, so it is encoded as bytes.
std::vector<int32_t> SentencePieceTokenizer::Encode(std::string_view text) const {
  size_t symbol = text.find(kSpaceSymbol);
  if (symbol == std::string_view::npos || !space_symbol_) return EncodePlain(text);
  std::vector<int32_t> ids = EncodePlain(text.substr(0, symbol));
  while (symbol != std::string_view::npos) {
    const size_t start = symbol + kSpaceSymbol.size();
    symbol = text.find(kSpaceSymbol, start);
    ids.insert(ids.end(), space_symbol_->begin(), space_symbol_->end());
    const auto part =
        EncodePlain(absl::StrCat(guard_, std::string(text.substr(start, symbol - start))));
    const auto shared = std::ranges::mismatch(guard_tokens_, part).in2;
    ids.insert(ids.end(), shared, part.end());
  }
  return ids;
}

std::optional<std::vector<int32_t>> SentencePieceTokenizer::BytePieces(
    std::string_view bytes) const {
  std::vector<int32_t> ids;
  for (const char byte : bytes) {
    const std::string piece = absl::StrFormat("<0x%02X>", static_cast<uint8_t>(byte));
    const std::optional<int32_t> id = FindPiece(piece);
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

std::string SentencePieceTokenizer::DecodePlain(std::span<const int32_t> tokens) const {
  std::string text;
  const int rc = api_->decode(model_, tokens.data(), tokens.size(), &text, AssignText, AssignText);
  BRAID_CHECK(rc == 0) << "decoding failed: " << text;
  return text;
}

std::string SentencePieceTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  auto begin = tokens.begin();
  while (begin != tokens.end()) {
    const auto end = std::find_if(begin, tokens.end(),
                                  [&](int32_t id) { return id == eos_id() || id == bos_id(); });
    text += DecodePlain({begin, end});
    begin = end == tokens.end() ? end : end + 1;
  }
  return text;
}

std::string SentencePieceTokenizer::Piece(int32_t id) const {
  BRAID_CHECK(id >= 0 && id < vocab_size()) << id << " of " << vocab_size();
  std::string piece;
  api_->id_to_piece(model_, id, &piece, AssignText);
  return piece;
}

int32_t SentencePieceTokenizer::TextBytes(int32_t id) const {
  if (id == eos_id() || id == bos_id()) return 0;
  const std::string piece = Piece(id);
  if (piece.size() == kBytePieceSize && piece.starts_with("<0x") && piece.ends_with(">")) return 1;
  size_t bytes = piece.size();
  for (size_t at = piece.find(kSpaceSymbol); at != std::string::npos;
       at = piece.find(kSpaceSymbol, at + kSpaceSymbol.size())) {
    bytes -= kSpaceSymbol.size() - 1;
  }
  return static_cast<int32_t>(bytes);
}

std::optional<int32_t> SentencePieceTokenizer::FindPiece(std::string_view piece) const {
  // The id is that of <unk> for a piece that does not exist.
  const int32_t id = api_->piece_to_id(model_, piece.data(), piece.size());
  return Piece(id) == piece ? std::optional(id) : std::nullopt;
}

}  // namespace braid
