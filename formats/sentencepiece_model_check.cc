#include "formats/sentencepiece_model_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "formats/protobuf_wire.h"

namespace braid {
namespace {

constexpr int kPieces = 1;
constexpr int kTrainerSpec = 2;
constexpr int kNormalizerSpec = 3;
constexpr int kLastField = 5;
// Every top-level field is a message: wire type 2, a length and that many bytes.
constexpr int kLengthDelimitedType = 2;

// Returns whether the first line is a token in base64 and its rank, as in the files of tiktoken.
bool BeginsLikeTiktoken(std::string_view bytes) {
  constexpr std::string_view kRankDigits = "0123456789";
  constexpr std::string_view kBase64 =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
  std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space % 4 != 0) return false;
  const std::string_view token = line.substr(0, space), rank = line.substr(space + 1);
  return token.find_first_not_of(kBase64) == std::string_view::npos && !rank.empty() &&
         rank.find_first_not_of(kRankDigits) == std::string_view::npos;
}

// Returns whether the file begins with text. A ModelProto has control characters at its start.
bool BeginsLikeText(std::string_view bytes) {
  constexpr size_t kProbeBytes = 4096;
  return !bytes.empty() && std::ranges::all_of(bytes.substr(0, kProbeBytes), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t';
  });
}

absl::Status NotAModel(const std::filesystem::path& path, std::string_view bytes, size_t offset,
                       std::string got) {
  Mismatch mismatch = {.what = "SentencePiece model",
                       .offset = static_cast<int64_t>(offset),
                       .got = std::move(got),
                       .expected = "a serialized ModelProto",
                       .hint = "Pass a tokenizer.model trained by SentencePiece."};
  if (BeginsLikeTiktoken(bytes)) {
    mismatch.got = "a vocabulary of tiktoken, lines of base64 and a rank";
    mismatch.hint = "Pass the tokenizer.json of the same model.";
  } else if (BeginsLikeText(bytes)) {
    mismatch.got = "a text file";
    mismatch.hint = "Pass a tokenizer.model trained by SentencePiece, or a tokenizer.json.";
  }
  return UnsuitableFile(path, mismatch);
}

absl::Status Truncated(const std::filesystem::path& path, size_t offset, std::string expected) {
  return CorruptFile(path, {.what = "SentencePiece model",
                            .offset = static_cast<int64_t>(offset),
                            .got = "the end of the file",
                            .expected = std::move(expected),
                            .hint = "The file is truncated; copy it again."});
}

}  // namespace

absl::Status CheckSentencePieceModel(const std::filesystem::path& path, std::string_view bytes) {
  bool seen[kLastField + 1] = {};
  size_t position = 0;
  while (position < bytes.size()) {
    const size_t start = position;
    const std::optional<uint64_t> tag = ReadVarint(bytes, &position);
    const uint64_t field = tag.value_or(0) >> 3;
    if (!tag || (*tag & 7) != kLengthDelimitedType || field < 1 || field > kLastField) {
      return NotAModel(path, bytes, start, "bytes that are not the start of a known field");
    }
    const std::optional<uint64_t> length = ReadVarint(bytes, &position);
    if (!length || *length > bytes.size() - position) {
      if (!seen[kPieces]) return NotAModel(path, bytes, start, "a field longer than the file");
      return Truncated(path, start,
                       length.has_value() ? absl::StrCat(*length, " more bytes of a field")
                                          : "the length of a field");
    }
    seen[field] = true;
    position += *length;
  }
  if (!seen[kPieces]) return NotAModel(path, bytes, 0, "no pieces");
  if (!seen[kTrainerSpec] || !seen[kNormalizerSpec]) {
    return Truncated(path, bytes.size(), "trainer and normalizer settings after the pieces");
  }
  return absl::OkStatus();
}

}  // namespace braid
