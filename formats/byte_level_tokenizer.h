// Byte-level BPE: the tokenizers of GPT-2, LLaMA 3, Qwen, SmolLM (tokenizer_json.h).
#ifndef BRAID_FORMATS_BYTE_LEVEL_TOKENIZER_H_
#define BRAID_FORMATS_BYTE_LEVEL_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "formats/byte_pair_merges.h"
#include "formats/piece_scanner.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_json.h"

namespace braid {

// Immutable; thread-safe. Special tokens are never found in text, and Decode leaves them out.
class ByteLevelTokenizer : public Tokenizer {
 public:
  // `path` is for messages. INVALID_ARGUMENT if a byte has no token, a merge has no token, or there
  // is no end-of-sequence token; UNIMPLEMENTED for a tokenizer of another kind.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string_view text,
                                                             const std::filesystem::path& path);

  std::vector<int32_t> Encode(std::string_view text) const override;
  std::string Decode(std::span<const int32_t> tokens) const override;
  std::string Piece(int32_t id) const override;
  int32_t TextBytes(int32_t id) const override;
  std::optional<int32_t> FindPiece(std::string_view piece) const override;
  bool ForEachPiece(std::string_view text, absl::FunctionRef<void(std::string_view)> piece,
                    absl::FunctionRef<void(int32_t)> token) const override;
  void EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const override;

 private:
  // Tokens that are searched in text, the longest of those that begin with a byte first.
  struct Searched {
    std::array<std::vector<std::pair<std::string, int32_t>>, 256> by_first_byte;
    std::array<bool, 256> begins{};  // whether a token begins with the byte
    bool any = false;
  };
  using PieceSink = absl::FunctionRef<void(std::string_view)>;
  using TokenSink = absl::FunctionRef<void(int32_t)>;

  using IdsByPiece = absl::flat_hash_map<std::string, int32_t>;

  ByteLevelTokenizer(const Ends& ends, TokenizerJson parsed, IdsByPiece ids, BytePairMerges merges,
                     std::vector<std::string> bytes);
  static void CutAt(const Searched& searched, std::string_view text, PieceSink rest,
                    TokenSink token);

  PieceScanner scanner_;
  BytePairMerges merges_;
  std::vector<NormalForm> normal_forms_;
  std::vector<std::string> pieces_;  // as in the file
  IdsByPiece ids_;                   // by piece
  std::vector<std::string> bytes_;   // by id; empty for special tokens
  // Pieces that are one token each, if the vocabulary takes precedence over the merges.
  absl::flat_hash_map<std::string, int32_t> whole_pieces_;
  Searched before_normalization_, after_normalization_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_BYTE_LEVEL_TOKENIZER_H_
