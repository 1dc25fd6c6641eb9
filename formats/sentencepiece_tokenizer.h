// SentencePiece models.
//
// libsentencepiece exports a Protocol Buffers runtime older than the one of the program, so it is
// linked by a module, libbraid_sentencepiece.so, which is opened at first use with private symbols.
// The module is searched in $BRAID_SENTENCEPIECE_MODULE, then in ../lib, ../lib/braid and .
// relative to the program.
#ifndef BRAID_FORMATS_SENTENCEPIECE_TOKENIZER_H_
#define BRAID_FORMATS_SENTENCEPIECE_TOKENIZER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/sentencepiece_module.h"
#include "formats/tokenizer.h"
#include "formats/word_boundaries.h"

namespace braid {

// Immutable; thread-safe.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // Loads a serialized ModelProto; `path` is for messages. Errors: Tokenizer::Load.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromBytes(std::string_view bytes,
                                                              const std::filesystem::path& path);

  ~SentencePieceTokenizer() override;

  std::vector<int32_t> Encode(std::string_view text) const override;
  std::string Decode(std::span<const int32_t> tokens) const override;
  std::string Piece(int32_t id) const override;
  int32_t TextBytes(int32_t id) const override;
  std::optional<int32_t> FindPiece(std::string_view piece) const override;
  const WordBoundaries* word_boundaries() const override {
    return word_boundaries_.known ? &word_boundaries_ : nullptr;
  }

 private:
  SentencePieceTokenizer(const SentencePieceApi* api, void* model,
                         const WordBoundaries& word_boundaries, std::string guard);
  std::vector<int32_t> EncodePlain(std::string_view text) const;
  std::string DecodePlain(std::span<const int32_t> tokens) const;
  std::optional<std::vector<int32_t>> BytePieces(std::string_view bytes) const;

  const SentencePieceApi* api_;
  void* model_;
  WordBoundaries word_boundaries_;
  // What is put before text within a text, so that it gets no dummy space, and its tokens. Empty
  // for models that add none.
  std::string guard_;
  std::vector<int32_t> guard_tokens_;
  std::optional<std::vector<int32_t>> space_symbol_;  // byte pieces of U+2581
};

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_TOKENIZER_H_
