#include "formats/sentencepiece_model_check.h"

#include <cstdint>
#include <optional>
#include <string>

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

absl::Status NotAModel(const std::filesystem::path& path, size_t offset, std::string got) {
  return UnsuitableFile(path, {.what = "SentencePiece model",
                               .offset = static_cast<int64_t>(offset),
                               .got = std::move(got),
                               .expected = "a serialized ModelProto",
                               .hint = "Pass a tokenizer.model trained by SentencePiece."});
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
      return NotAModel(path, start, "bytes that are not the start of a known field");
    }
    const std::optional<uint64_t> length = ReadVarint(bytes, &position);
    if (!length || *length > bytes.size() - position) {
      if (!seen[kPieces]) return NotAModel(path, start, "a field longer than the file");
      return Truncated(path, start,
                       length.has_value() ? absl::StrCat(*length, " more bytes of a field")
                                          : "the length of a field");
    }
    seen[field] = true;
    position += *length;
  }
  if (!seen[kPieces]) return NotAModel(path, 0, "no pieces");
  if (!seen[kTrainerSpec] || !seen[kNormalizerSpec]) {
    return Truncated(path, bytes.size(), "trainer and normalizer settings after the pieces");
  }
  return absl::OkStatus();
}

}  // namespace braid
