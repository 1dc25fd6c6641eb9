#include "formats/tokenizer.h"

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/byte_level_tokenizer.h"
#include "formats/sentencepiece_tokenizer.h"

namespace braid {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::filesystem::path& model) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(model));
  return Parse(bytes, model);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Parse(std::string_view bytes,
                                                            const std::filesystem::path& path) {
  // A ModelProto begins with the tag of a field, 0x0A.
  if (bytes.starts_with('{')) return ByteLevelTokenizer::FromJson(bytes, path);
  return SentencePieceTokenizer::FromBytes(bytes, path);
}

void Tokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const {
  const std::vector<int32_t> tokens = Encode(piece);
  ids->insert(ids->end(), tokens.begin(), tokens.end());
}

}  // namespace braid
