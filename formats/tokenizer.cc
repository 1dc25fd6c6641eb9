#include "formats/tokenizer.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/byte_level_tokenizer.h"
#include "formats/sentencepiece_tokenizer.h"
#include "formats/tokenizer_file.h"
#include "formats/tokenizer_json_fields.h"

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

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Parse(const TokenizerFile& file) {
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> parsed, Parse(file.bytes, file.path));
  const std::optional<std::string>& end = file.eos_token;
  if (!end || parsed->FindPiece(*end) == parsed->eos_id()) return parsed;
  const std::string own = parsed->Piece(parsed->eos_id());
  return absl::UnimplementedError(absl::StrCat(
      (file.path.parent_path() / kTokenizerConfigFile).string(), ": eos_token: got \"", *end,
      "\", expected the end of ", file.path.filename().string(), " itself, \"", own,
      "\": another end of a SentencePiece model is not supported; to end texts with \"", own,
      "\", name a copy of the file in another directory with --tokenizer"));
}

void Tokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const {
  const std::vector<int32_t> tokens = Encode(piece);
  ids->insert(ids->end(), tokens.begin(), tokens.end());
}

}  // namespace braid
