#include "formats/byte_level_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "formats/byte_level_alphabet.h"
#include "formats/text_normalizer.h"

namespace braid {
namespace {

using IdsByPiece = absl::flat_hash_map<std::string, int32_t>;

absl::StatusOr<std::array<int32_t, 256>> IdsOfBytes(const IdsByPiece& ids,
                                                    const std::string& path) {
  std::array<int32_t, 256> result;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = ByteCharacter(static_cast<uint8_t>(byte));
    const auto found = ids.find(character);
    if (found == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": model.vocab has no token \"",
                                                     character, "\" for byte ", byte,
                                                     "; a byte-level vocabulary has all 256"));
    }
    result[static_cast<size_t>(byte)] = found->second;
  }
  return result;
}

absl::StatusOr<BytePairMerges> BuildMerges(const TokenizerJson& parsed, const IdsByPiece& ids,
                                           const std::string& path) {
  ASSIGN_OR_RETURN(const auto bytes, IdsOfBytes(ids, path));
  BytePairMerges merges(bytes);
  for (size_t i = 0; i < parsed.merges.size(); ++i) {
    const auto& [left, right] = parsed.merges[i];
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || both == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": model.merges[", i, "] joins \"", left,
                                                     "\" and \"", right,
                                                     "\", which are not all in model.vocab"));
    }
    merges.Add(a->second, b->second, both->second);
  }
  return merges;
}

// Returns the id of a token that the tokenizer_config.json beside `path` names; -1 if it names
// none.
absl::StatusOr<int32_t> IdOfEnd(const char* field, const std::optional<std::string>& content,
                                const IdsByPiece& ids, const std::filesystem::path& path) {
  if (!content) return -1;
  const auto found = ids.find(*content);
  if (found == ids.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat((path.parent_path() / "tokenizer_config.json").string(), ": ", field,
                     ": got \"", *content, "\", expected a token of ", path.filename().string()));
  }
  return found->second;
}

// Returns the bytes of each token: those of the byte alphabet, or the content of added tokens,
// which is nothing for special ones.
absl::StatusOr<std::vector<std::string>> BytesOfTokens(const TokenizerJson& parsed,
                                                       const std::string& path) {
  std::vector<std::string> result(parsed.pieces.size());
  std::vector<bool> added(parsed.pieces.size());
  for (const AddedToken& token : parsed.added_tokens) {
    added[static_cast<size_t>(token.id)] = true;
    if (!token.special) result[static_cast<size_t>(token.id)] = token.content;
  }
  for (size_t id = 0; id < parsed.pieces.size(); ++id) {
    if (added[id]) continue;
    const std::optional<std::string> bytes = BytesOfCharacters(parsed.pieces[id]);
    if (!bytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": model.vocab[\"", parsed.pieces[id],
                                                     "\"] has characters that stand for no byte"));
    }
    result[id] = *bytes;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ByteLevelTokenizer::FromJson(
    std::string_view text, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(TokenizerJson parsed, ParseTokenizerJson(text, path));
  IdsByPiece ids;
  for (size_t id = 0; id < parsed.pieces.size(); ++id) {
    ids.emplace(parsed.pieces[id], static_cast<int32_t>(id));
  }
  ASSIGN_OR_RETURN(BytePairMerges merges, BuildMerges(parsed, ids, path.string()));
  ASSIGN_OR_RETURN(std::vector<std::string> bytes, BytesOfTokens(parsed, path.string()));
  Ends ends;
  ends.vocab_size = static_cast<int32_t>(parsed.pieces.size());
  ASSIGN_OR_RETURN(ends.bos_id, IdOfEnd("bos_token", parsed.bos, ids, path));
  ASSIGN_OR_RETURN(ends.eos_id, IdOfEnd("eos_token", parsed.eos, ids, path));
  if (ends.eos_id < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(),
                     ": the end-of-sequence token, which separates documents, is not known; put "
                     "the tokenizer_config.json with its eos_token beside the file"));
  }
  return std::unique_ptr<Tokenizer>(new ByteLevelTokenizer(ends, std::move(parsed), std::move(ids),
                                                           std::move(merges), std::move(bytes)));
}

ByteLevelTokenizer::ByteLevelTokenizer(const Ends& ends, TokenizerJson parsed, IdsByPiece ids,
                                       BytePairMerges merges, std::vector<std::string> bytes)
    : Tokenizer(ends),
      scanner_(std::move(parsed.scanner)),
      merges_(std::move(merges)),
      normal_forms_(std::move(parsed.normal_forms)),
      pieces_(std::move(parsed.pieces)),
      ids_(std::move(ids)),
      bytes_(std::move(bytes)) {
  for (const AddedToken& token : parsed.added_tokens) {
    if (token.special) continue;
    Searched& searched = token.normalized ? after_normalization_ : before_normalization_;
    std::string content = token.content, scratch;
    if (token.normalized) content = Normalized(normal_forms_, token.content, &scratch);
    searched.any = searched.begins[static_cast<uint8_t>(content[0])] = true;
    searched.by_first_byte[static_cast<uint8_t>(content[0])].emplace_back(std::move(content),
                                                                          token.id);
  }
  for (Searched* searched : {&before_normalization_, &after_normalization_}) {
    for (auto& tokens : searched->by_first_byte) {
      std::ranges::sort(tokens, std::ranges::greater{},
                        [](const auto& token) { return token.first.size(); });
    }
  }
  if (!parsed.ignore_merges) return;
  for (size_t id = 0; id < bytes_.size(); ++id) {
    if (!bytes_[id].empty()) whole_pieces_.emplace(bytes_[id], static_cast<int32_t>(id));
  }
}

void ByteLevelTokenizer::CutAt(const Searched& searched, std::string_view text, PieceSink rest,
                               TokenSink token) {
  size_t begin = 0;
  for (size_t i = 0; searched.any && i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    if (!searched.begins[first]) {
      ++i;
      continue;
    }
    const auto& tokens = searched.by_first_byte[first];
    const auto found = std::ranges::find_if(
        tokens, [&](const auto& candidate) { return text.substr(i).starts_with(candidate.first); });
    if (found == tokens.end()) {
      ++i;
      continue;
    }
    if (i > begin) rest(text.substr(begin, i - begin));
    token(found->second);
    begin = i += found->first.size();
  }
  if (begin < text.size()) rest(text.substr(begin));
}

bool ByteLevelTokenizer::ForEachPiece(std::string_view text, PieceSink piece,
                                      TokenSink token) const {
  std::string valid;
  if (!IsValidUtf8(text)) text = valid = ReplaceInvalidUtf8(text);
  CutAt(
      before_normalization_, text,
      [&](std::string_view rest) {
        std::string scratch;
        rest = Normalized(normal_forms_, rest, &scratch);
        CutAt(
            after_normalization_, rest, [&](std::string_view part) { scanner_.Split(part, piece); },
            token);
      },
      token);
  return true;
}

void ByteLevelTokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const {
  if (!whole_pieces_.empty()) {
    const auto found = whole_pieces_.find(absl::string_view(piece.data(), piece.size()));
    if (found != whole_pieces_.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  merges_.Encode(piece, ids);
}

std::vector<int32_t> ByteLevelTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ForEachPiece(
      text, [&](std::string_view piece) { EncodePiece(piece, &ids); },
      [&](int32_t token) { ids.push_back(token); });
  return ids;
}

std::string ByteLevelTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string bytes;
  for (const int32_t id : tokens) {
    BRAID_CHECK(id >= 0 && id < vocab_size()) << id << " of " << vocab_size();
    bytes += bytes_[static_cast<size_t>(id)];
  }
  return IsValidUtf8(bytes) ? bytes : ReplaceInvalidUtf8(bytes);
}

std::string ByteLevelTokenizer::Piece(int32_t id) const {
  BRAID_CHECK(id >= 0 && id < vocab_size()) << id << " of " << vocab_size();
  return pieces_[static_cast<size_t>(id)];
}

int32_t ByteLevelTokenizer::TextBytes(int32_t id) const {
  BRAID_CHECK(id >= 0 && id < vocab_size()) << id << " of " << vocab_size();
  return static_cast<int32_t>(bytes_[static_cast<size_t>(id)].size());
}

std::optional<int32_t> ByteLevelTokenizer::FindPiece(std::string_view piece) const {
  const auto found = ids_.find(absl::string_view(piece.data(), piece.size()));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace braid
