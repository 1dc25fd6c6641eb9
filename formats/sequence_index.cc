#include "formats/sequence_index.h"

#include <bit>
#include <cstring>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are copied without conversion");

// Byte offsets in the .idx; the arrays that follow the header are unaligned.
constexpr int64_t kVersionOffset = 9;
constexpr int64_t kTypeOffset = 17;
constexpr int64_t kSequencesOffset = 18;
constexpr int64_t kDocumentsOffset = 26;
constexpr int64_t kLengthsOffset = 34;

template <class T>
T LoadField(std::string_view bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
void WidenTokens(std::string_view bytes, std::span<int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = LoadField<T>(bytes, i * sizeof(T));
}

int64_t PointersOffset(int64_t num_sequences) { return kLengthsOffset + 4 * num_sequences; }
int64_t DocumentEndsOffset(int64_t num_sequences) { return kLengthsOffset + 12 * num_sequences; }

absl::Status CheckHeader(std::string_view index, const std::filesystem::path& path) {
  if (index.substr(0, kIndexedDatasetMagic.size()) != kIndexedDatasetMagic) {
    return CorruptFile(path, {"magic", 0, "other bytes", "MMIDIDX\\0\\0",
                              "Check that it is a Megatron-LM .idx file"});
  }
  if (index.size() < kLengthsOffset) {
    return CorruptFile(path, {"length", 0, absl::StrCat(index.size(), " bytes"),
                              absl::StrCat("at least ", kLengthsOffset, " bytes")});
  }
  if (const auto version = LoadField<uint64_t>(index, kVersionOffset);
      version != kIndexedDatasetVersion) {
    return CorruptFile(path, {"version", kVersionOffset, absl::StrCat(version), "1"});
  }
  const uint8_t code = LoadField<uint8_t>(index, kTypeOffset);
  if (ElementBytes(TokenType{code}) == 0) {
    return UnsuitableFile(path, {"element type", kTypeOffset, absl::StrCat("code ", code),
                                 "1, 2, 3, 4 or 8 (integers of at most 32 bits)",
                                 "Rebuild the dataset with int32 tokens"});
  }
  return absl::OkStatus();
}

// Checks the counts against the length of the file before they are used as array sizes.
absl::Status CheckCounts(std::string_view index, const std::filesystem::path& path) {
  const uint64_t sequences = LoadField<uint64_t>(index, kSequencesOffset);
  const uint64_t entries = LoadField<uint64_t>(index, kDocumentsOffset);
  if (sequences > index.size() / 12) {
    return CorruptFile(path, {"number of sequences", kSequencesOffset, absl::StrCat(sequences),
                              absl::StrCat("at most ", index.size() / 12, " in a file of ",
                                           index.size(), " bytes")});
  }
  if (entries < 1 || entries > index.size() / 8) {
    return CorruptFile(path, {"number of document indices", kDocumentsOffset, absl::StrCat(entries),
                              absl::StrCat("1 to ", index.size() / 8)});
  }
  const uint64_t plain = kLengthsOffset + 12 * sequences + 8 * entries;
  if (index.size() != plain && index.size() != plain + sequences) {
    return CorruptFile(path, {"length", 0, absl::StrCat(index.size(), " bytes"),
                              absl::StrCat(plain, " bytes for ", sequences, " sequences and ",
                                           entries, " document indices"),
                              "The file is truncated or was written for other counts"});
  }
  return absl::OkStatus();
}

}  // namespace

std::filesystem::path TokensPath(const std::filesystem::path& prefix) {
  auto path = prefix;
  return path += ".bin";
}

std::filesystem::path IndexPath(const std::filesystem::path& prefix) {
  auto path = prefix;
  return path += ".idx";
}

int64_t ElementBytes(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
      return 4;
  }
  return 0;
}

void AppendTokens(TokenType type, std::string_view bytes, std::vector<int32_t>* tokens) {
  const size_t before = tokens->size();
  tokens->resize(before + bytes.size() / static_cast<size_t>(ElementBytes(type)));
  const auto added = std::span<int32_t>(*tokens).subspan(before);
  switch (type) {
    case TokenType::kUint8:
      return WidenTokens<uint8_t>(bytes, added);
    case TokenType::kInt8:
      return WidenTokens<int8_t>(bytes, added);
    case TokenType::kInt16:
      return WidenTokens<int16_t>(bytes, added);
    case TokenType::kUint16:
      return WidenTokens<uint16_t>(bytes, added);
    case TokenType::kInt32:
      return WidenTokens<int32_t>(bytes, added);
  }
}

absl::StatusOr<SequenceIndex> SequenceIndex::Parse(std::string_view bytes, int64_t tokens_bytes,
                                                   const std::filesystem::path& prefix) {
  RETURN_IF_ERROR(CheckHeader(bytes, IndexPath(prefix)));
  RETURN_IF_ERROR(CheckCounts(bytes, IndexPath(prefix)));
  SequenceIndex index;
  index.bytes_ = bytes;
  index.tokens_bytes_ = tokens_bytes;
  index.type_ = TokenType{LoadField<uint8_t>(bytes, kTypeOffset)};
  index.num_sequences_ = LoadField<int64_t>(bytes, kSequencesOffset);
  index.num_documents_ = LoadField<int64_t>(bytes, kDocumentsOffset) - 1;
  RETURN_IF_ERROR(index.CheckSequences(prefix));
  RETURN_IF_ERROR(index.CheckDocuments(prefix));
  return index;
}

absl::Status SequenceIndex::CheckSequences(const std::filesystem::path& prefix) const {
  int64_t end = 0;
  for (int64_t i = 0; i < num_sequences_; ++i) {
    const int64_t length = sequence_length(i);
    if (length < 0) {
      return CorruptFile(IndexPath(prefix),
                         {absl::StrCat("length of sequence ", i), kLengthsOffset + 4 * i,
                          absl::StrCat(length), "at least 0"});
    }
    if (sequence_offset(i) != end) {
      return CorruptFile(IndexPath(prefix),
                         {absl::StrCat("pointer of sequence ", i),
                          PointersOffset(num_sequences_) + 8 * i, absl::StrCat(sequence_offset(i)),
                          absl::StrCat(end), "Sequences must follow each other without gaps"});
    }
    end += length * ElementBytes(type_);
  }
  if (tokens_bytes_ == end) return absl::OkStatus();
  return CorruptFile(TokensPath(prefix),
                     {"length", tokens_bytes_, absl::StrCat(tokens_bytes_, " bytes"),
                      absl::StrCat(end, " bytes according to the .idx"),
                      "The file is truncated or belongs to another .idx"});
}

absl::Status SequenceIndex::CheckDocuments(const std::filesystem::path& prefix) const {
  const int64_t base = DocumentEndsOffset(num_sequences_);
  int64_t previous = 0;
  for (int64_t i = 0; i <= num_documents_; ++i) {
    const int64_t begin = document_begin(i);
    if (begin < previous || begin > num_sequences_ || (i == 0 && begin != 0)) {
      return CorruptFile(IndexPath(prefix),
                         {absl::StrCat("document index ", i), base + 8 * i, absl::StrCat(begin),
                          i == 0 ? "0" : absl::StrCat(previous, " to ", num_sequences_)});
    }
    previous = begin;
  }
  if (previous == num_sequences_) return absl::OkStatus();
  return CorruptFile(IndexPath(prefix), {"last document index", base + 8 * num_documents_,
                                         absl::StrCat(previous), absl::StrCat(num_sequences_)});
}

int64_t SequenceIndex::sequence_length(int64_t i) const {
  BRAID_CHECK(i >= 0 && i < num_sequences_) << i << " of " << num_sequences_;
  return LoadField<int32_t>(bytes_, kLengthsOffset + 4 * i);
}

int64_t SequenceIndex::sequence_offset(int64_t i) const {
  BRAID_CHECK(i >= 0 && i < num_sequences_) << i << " of " << num_sequences_;
  return LoadField<int64_t>(bytes_, PointersOffset(num_sequences_) + 8 * i);
}

int64_t SequenceIndex::document_begin(int64_t i) const {
  BRAID_CHECK(i >= 0 && i <= num_documents_) << i << " of " << num_documents_;
  return LoadField<int64_t>(bytes_, DocumentEndsOffset(num_sequences_) + 8 * i);
}

}  // namespace braid
