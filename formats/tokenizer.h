// SentencePiece tokenizers: loading, training, encoding and decoding.
//
// A trained model has LLaMA's settings: BPE with byte fallback, no normalization, single digits,
// one dummy space before a text, ids <unk> 0, <s> 1, </s> 2 and bytes 3..258. Newlines and tabs are
// byte tokens and end a piece; runs of spaces can be one piece.
//
// Decode(Encode(x)) == x for every valid UTF-8 text x, including NUL, newlines and U+2581.
//
//   std::vector<std::string> sample = ...;
//   RETURN_IF_ERROR(TrainTokenizer(sample, {.vocab_size = 2048}, "tokenizer.model"));
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load("tokenizer.model"));
//   std::vector<int32_t> tokens = tokenizer->Encode("int main() {\n");
//
// libsentencepiece exports a Protocol Buffers runtime older than the one of the program, so it is
// linked by a module, libbraid_sentencepiece.so, which is opened at first use with private symbols.
// The module is searched in $BRAID_SENTENCEPIECE_MODULE, then in ../lib, ../lib/braid and .
// relative to the program.
#ifndef BRAID_FORMATS_TOKENIZER_H_
#define BRAID_FORMATS_TOKENIZER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/sentencepiece_module.h"
#include "formats/word_boundaries.h"

namespace braid {

// A loaded model. Immutable; thread-safe.
class Tokenizer {
 public:
  // Errors: NOT_FOUND if the file or the module does not exist, INVALID_ARGUMENT if the file is not
  // a SentencePiece model or has no end-of-sequence piece, DATA_LOSS if it is truncated.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Returns the token ids of a text, without <s> and </s>. Bytes of `text` that are not valid UTF-8
  // are replaced by U+FFFD.
  std::vector<int32_t> Encode(std::string_view text) const;

  // Returns the text of a sequence of tokens. <s> and </s> produce no text and start a new text,
  // whose dummy space is removed. Bytes that are not UTF-8 become U+FFFD. Requires every id in [0,
  // vocab_size()).
  std::string Decode(std::span<const int32_t> tokens) const;

  // Returns the text of one piece, e.g. "\u2581the", "<0x0A>" or "</s>".
  std::string Piece(int32_t id) const;

  // Returns the number of pieces, V.
  int32_t vocab_size() const { return vocab_size_; }
  int32_t eos_id() const { return eos_id_; }
  // Returns -1 if the model has no such piece.
  int32_t bos_id() const { return bos_id_; }
  // Returns where texts may be cut for encoding; used by WordEncoder (word_encoder.h).
  const WordBoundaries& word_boundaries() const { return word_boundaries_; }

 private:
  Tokenizer(const SentencePieceApi* api, void* model, const WordBoundaries& word_boundaries);
  std::vector<int32_t> EncodePlain(std::string_view text) const;
  std::string DecodePlain(std::span<const int32_t> tokens) const;
  std::optional<std::vector<int32_t>> BytePieces(std::string_view bytes) const;

  const SentencePieceApi* api_;
  void* model_;
  int32_t vocab_size_;
  int32_t bos_id_;
  int32_t eos_id_;
  WordBoundaries word_boundaries_;
  std::vector<int32_t> newline_;                      // Encode("\n")
  std::optional<std::vector<int32_t>> space_symbol_;  // byte pieces of U+2581
};

struct TokenizerTrainingOptions {
  // Number of pieces, including the 259 special and byte pieces.
  int32_t vocab_size = 32000;
  // Share of the characters of the sample that get a piece of their own; the others become bytes.
  double character_coverage = 0.9995;
};

// Trains a BPE model on `texts` (valid UTF-8, held in memory) and writes it atomically to
// `output_model`. The same texts and options give the same bytes. INVALID_ARGUMENT if the sample is
// empty, or too small or too varied for vocab_size; the message contains a size that would work.
//
// Training runs in a separate process. `keep_going`, if it is not null, is called every 50 ms; its
// first error ends training and is returned. Further errors: tokenizer_process.h.
absl::Status TrainTokenizer(std::span<const std::string> texts,
                            const TokenizerTrainingOptions& options,
                            const std::filesystem::path& output_model,
                            const std::function<absl::Status()>& keep_going = nullptr);

}  // namespace braid

#endif  // BRAID_FORMATS_TOKENIZER_H_
