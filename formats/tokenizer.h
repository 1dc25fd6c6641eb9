// Tokenizers: loading, training, encoding and decoding.
//
// Two kinds can be loaded: SentencePiece models and byte-level BPE (byte_level_tokenizer.h). A
// model that is trained here is SentencePiece and has LLaMA's settings: BPE with byte fallback, no
// normalization, single digits, one dummy space before a text, ids <unk> 0, <s> 1, </s> 2 and
// bytes 3..258. Newlines and tabs are byte tokens and end a piece; runs of spaces can be one piece.
//
// Decode(Encode(x)) == x for every valid UTF-8 text x, including NUL, newlines and U+2581.
//
//   std::vector<std::string> sample = ...;
//   RETURN_IF_ERROR(TrainTokenizer(sample, {.vocab_size = 2048}, "tokenizer.model"));
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load("tokenizer.model"));
//   std::vector<int32_t> tokens = tokenizer->Encode("int main() {\n");
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

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/word_boundaries.h"

namespace braid {

struct TokenizerFile;

// A loaded model. Immutable; thread-safe.
class Tokenizer {
 public:
  // Loads a SentencePiece model or a tokenizer.json; the content decides which, not the name.
  // Errors: NOT_FOUND if the file or the module does not exist, INVALID_ARGUMENT if the file is
  // neither or has no end-of-sequence token, UNIMPLEMENTED for a tokenizer.json of another kind
  // than byte-level BPE, DATA_LOSS if the file is truncated.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model);
  // Does the same with the bytes of a file; `path` is for messages.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view bytes,
                                                          const std::filesystem::path& path);

  // Does the same with a file for models of other programs (formats/tokenizer_file.h).
  // UNIMPLEMENTED if these end texts with another token than the SentencePiece model in the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(const TokenizerFile& file);

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Returns the token ids of a text without its begin and end, never control tokens. Bytes that are
  // not UTF-8 become U+FFFD. Throws TokenizationError (piece_scanner.h) when it cannot be cut.
  virtual std::vector<int32_t> Encode(std::string_view text) const = 0;

  // Returns the text of a sequence of tokens. Control tokens produce no text; a SentencePiece model
  // starts a new text after them, whose dummy space is removed. Bytes that are not UTF-8 become
  // U+FFFD. Requires every id in [0, vocab_size()).
  virtual std::string Decode(std::span<const int32_t> tokens) const = 0;

  // Returns one piece as the model's file has it, e.g. "\u2581the", "\u0120the" or "</s>".
  virtual std::string Piece(int32_t id) const = 0;
  // Returns the number of bytes of text that a token stands for: 0 for the special tokens of a
  // tokenizer.json, and for BOS and EOS of SentencePiece, whose dummy space counts.
  virtual int32_t TextBytes(int32_t id) const = 0;
  // Returns the id of a piece; nullopt if the model has no such piece. Does not search the pieces
  // one by one.
  virtual std::optional<int32_t> FindPiece(std::string_view piece) const = 0;

  // Returns the number of pieces, V.
  int32_t vocab_size() const { return ends_.vocab_size; }
  int32_t eos_id() const { return ends_.eos_id; }
  // Returns -1 if the model has no such piece.
  int32_t bos_id() const { return ends_.bos_id; }

  // For WordEncoder (word_encoder.h): texts are encoded in parts whose tokens do not depend on
  // their neighbors. The boundaries say where a text may be cut; null if the model does not allow
  // it.
  virtual const WordBoundaries* word_boundaries() const { return nullptr; }
  // Calls `piece` with each part of a text and `token` with tokens between them, in order; returns
  // false if the model has no such parts.
  virtual bool ForEachPiece(std::string_view /*text*/,
                            absl::FunctionRef<void(std::string_view)> /*piece*/,
                            absl::FunctionRef<void(int32_t)> /*token*/) const {
    return false;
  }
  // Appends the tokens of one part that ForEachPiece returned.
  virtual void EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const;

 protected:
  struct Ends {
    int32_t vocab_size = 0;
    int32_t bos_id = -1;
    int32_t eos_id = -1;
  };
  explicit Tokenizer(const Ends& ends) : ends_(ends) {}

 private:
  Ends ends_;
};

struct TokenizerTrainingOptions {
  // Number of pieces, including the 259 special and byte pieces.
  int32_t vocab_size = 32000;
  // Share of the characters of the sample that get a piece of their own; the others become bytes.
  double character_coverage = 0.9995;
  // Where the sample is too small or too varied for vocab_size, train with the nearest size that it
  // allows instead.
  bool fit_vocab_size = false;
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
