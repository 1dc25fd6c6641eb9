#include "formats/indexed_dataset.h"

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are copied without conversion");

constexpr std::string_view kIndexedDatasetMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kIndexedDatasetVersion = 1;
constexpr int64_t kUint16VocabLimit = 65500;
// Byte offsets in the .idx; the arrays that follow the header are unaligned.
constexpr int64_t kVersionOffset = 9;
constexpr int64_t kTypeOffset = 17;
constexpr int64_t kSequencesOffset = 18;
constexpr int64_t kDocumentsOffset = 26;
constexpr int64_t kLengthsOffset = 34;

template <class T>
T Load(std::string_view bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
void AppendRaw(std::string* bytes, const T& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
void AppendArray(std::string* bytes, std::span<const T> values) {
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

// Appends `count` values from the front of `bytes` to `values` and removes them from `bytes`.
template <class T>
void TakeValues(size_t count, std::string_view* bytes, std::vector<T>* values) {
  const size_t before = values->size();
  values->resize(before + count);
  if (count > 0) std::memcpy(values->data() + before, bytes->data(), count * sizeof(T));
  bytes->remove_prefix(count * sizeof(T));
}

// Returns the size of an element in bytes; 0 for an unsupported code.
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

template <class T>
void Widen(std::string_view bytes, std::span<int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = Load<T>(bytes, i * sizeof(T));
}

int64_t PointersOffset(int64_t num_sequences) { return kLengthsOffset + 4 * num_sequences; }
int64_t DocumentEndsOffset(int64_t num_sequences) { return kLengthsOffset + 12 * num_sequences; }

absl::Status CheckHeader(std::string_view index, const std::filesystem::path& path) {
  if (index.substr(0, kIndexedDatasetMagic.size()) != kIndexedDatasetMagic) {
    return CorruptFile(
        path, {"magic", 0, "other bytes", "MMIDIDX\\0\\0", "Check that it is a Megatron-LM .idx file"});
  }
  if (index.size() < kLengthsOffset) {
    return CorruptFile(path, {"length", 0, absl::StrCat(index.size(), " bytes"),
                              absl::StrCat("at least ", kLengthsOffset, " bytes")});
  }
  if (const auto version = Load<uint64_t>(index, kVersionOffset);
      version != kIndexedDatasetVersion) {
    return CorruptFile(path, {"version", kVersionOffset, absl::StrCat(version), "1"});
  }
  const uint8_t code = Load<uint8_t>(index, kTypeOffset);
  if (ElementBytes(TokenType{code}) == 0) {
    return UnsuitableFile(path, {"element type", kTypeOffset, absl::StrCat("code ", code),
                                 "1, 2, 3, 4 or 8 (integers of at most 32 bits)",
                                 "Rebuild the dataset with int32 tokens"});
  }
  return absl::OkStatus();
}

// Checks the counts against the length of the file before they are used as array sizes.
absl::Status CheckCounts(std::string_view index, const std::filesystem::path& path) {
  const uint64_t sequences = Load<uint64_t>(index, kSequencesOffset);
  const uint64_t entries = Load<uint64_t>(index, kDocumentsOffset);
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

std::filesystem::path LengthsPath(const std::filesystem::path& prefix) {
  auto path = prefix;
  return path += ".lengths";
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

IndexedDatasetWriter::IndexedDatasetWriter(std::filesystem::path prefix,
                                           std::unique_ptr<AtomicFile> tokens, int64_t vocab_size)
    : prefix_(std::move(prefix)),
      tokens_(std::move(tokens)),
      vocab_size_(vocab_size),
      type_(vocab_size < kUint16VocabLimit ? TokenType::kUint16 : TokenType::kInt32) {}

absl::StatusOr<std::unique_ptr<IndexedDatasetWriter>> IndexedDatasetWriter::Create(
    const std::filesystem::path& prefix, int64_t vocab_size) {
  return Resume(prefix, vocab_size, {});
}

absl::StatusOr<std::unique_ptr<IndexedDatasetWriter>> IndexedDatasetWriter::Resume(
    const std::filesystem::path& prefix, int64_t vocab_size, const DurablePrefixes& synced) {
  if (vocab_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(prefix.string(), ": got vocabulary size ",
                                                   vocab_size, ", expected at least 1"));
  }
  ASSIGN_OR_RETURN(auto tokens, AtomicFile::Resume(TokensPath(prefix), synced));
  std::unique_ptr<IndexedDatasetWriter> writer(
      new IndexedDatasetWriter(prefix, std::move(tokens), vocab_size));
  if (synced.empty()) return writer;
  ASSIGN_OR_RETURN(writer->synced_lengths_, AtomicFile::Resume(LengthsPath(prefix), synced));
  RETURN_IF_ERROR(writer->ReadLengths());
  return writer;
}

// The file consists of one block per Sync(): the numbers of new lengths and document ends, then
// both arrays.
absl::Status IndexedDatasetWriter::ReadLengths() {
  ASSIGN_OR_RETURN(const std::string text, synced_lengths_->ReadBack());
  std::string_view rest = text;
  while (rest.size() >= 2 * sizeof(int64_t)) {
    const auto num_lengths = Load<uint64_t>(rest, 0), num_ends = Load<uint64_t>(rest, 8);
    rest.remove_prefix(2 * sizeof(int64_t));
    if (num_lengths > rest.size() / 4 || num_ends > (rest.size() - 4 * num_lengths) / 8) break;
    TakeValues(num_lengths, &rest, &lengths_);
    TakeValues(num_ends, &rest, &document_ends_);
  }
  num_tokens_ = std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0});
  if (!rest.empty() || num_tokens_ * ElementBytes(type_) != tokens_->size()) {
    return Unresumable(LengthsPath(prefix_), "its lengths do not match the .bin");
  }
  num_synced_lengths_ = lengths_.size();
  num_synced_ends_ = document_ends_.size() - 1;
  return absl::OkStatus();
}

absl::Status IndexedDatasetWriter::Sync(DurablePrefixes* synced) {
  if (synced_lengths_ == nullptr) {
    ASSIGN_OR_RETURN(synced_lengths_, AtomicFile::Create(LengthsPath(prefix_)));
  }
  const auto lengths = std::span<const int32_t>(lengths_).subspan(num_synced_lengths_);
  const auto ends = std::span<const int64_t>(document_ends_).subspan(num_synced_ends_ + 1);
  std::string block;
  AppendRaw(&block, uint64_t{lengths.size()});
  AppendRaw(&block, uint64_t{ends.size()});
  AppendArray(&block, lengths);
  AppendArray(&block, ends);
  RETURN_IF_ERROR(synced_lengths_->Append(block));
  RETURN_IF_ERROR(tokens_->Sync(synced));
  RETURN_IF_ERROR(synced_lengths_->Sync(synced));
  num_synced_lengths_ = lengths_.size();
  num_synced_ends_ = document_ends_.size() - 1;
  return absl::OkStatus();
}

absl::Status IndexedDatasetWriter::AddSequence(std::span<const int32_t> tokens) {
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(prefix_.string(), ": a sequence of ",
                                                   tokens.size(), " tokens exceeds 2^31 - 1"));
  }
  scratch_.clear();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size_) {
      return absl::InvalidArgumentError(
          absl::StrCat(prefix_.string(), ": sequence ", lengths_.size(), ", token ", i, ": got ",
                       tokens[i], ", expected 0 to ", vocab_size_ - 1));
    }
    if (type_ == TokenType::kUint16) AppendRaw(&scratch_, static_cast<uint16_t>(tokens[i]));
  }
  const std::string_view raw = {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
  RETURN_IF_ERROR(tokens_->Append(type_ == TokenType::kUint16 ? scratch_ : raw));
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  num_tokens_ += static_cast<int64_t>(tokens.size());
  return absl::OkStatus();
}

void IndexedDatasetWriter::EndDocument() { document_ends_.push_back(num_sequences()); }

std::string IndexedDatasetWriter::FormatIndex() const {
  std::string index(kIndexedDatasetMagic);
  AppendRaw(&index, kIndexedDatasetVersion);
  AppendRaw(&index, type_);
  AppendRaw(&index, uint64_t{lengths_.size()});
  AppendRaw(&index, uint64_t{document_ends_.size()});
  AppendArray<int32_t>(&index, lengths_);
  int64_t pointer = 0;
  for (const int32_t length : lengths_) {
    AppendRaw(&index, pointer);
    pointer += length * ElementBytes(type_);
  }
  AppendArray<int64_t>(&index, document_ends_);
  return index;
}

absl::StatusOr<std::vector<FileSummary>> IndexedDatasetWriter::Commit() {
  if (document_ends_.back() != num_sequences()) EndDocument();
  ASSIGN_OR_RETURN(auto index, AtomicFile::Create(IndexPath(prefix_)));
  RETURN_IF_ERROR(index->Append(FormatIndex()));
  // Publishes the index last, so a reader that finds it finds the tokens too.
  ASSIGN_OR_RETURN(FileSummary tokens_summary, tokens_->Commit());
  ASSIGN_OR_RETURN(FileSummary index_summary, index->Commit());
  return std::vector<FileSummary>{std::move(tokens_summary), std::move(index_summary)};
}

absl::StatusOr<IndexedDataset> IndexedDataset::Open(const std::filesystem::path& prefix) {
  ASSIGN_OR_RETURN(MappedFile index, MappedFile::Open(IndexPath(prefix)));
  ASSIGN_OR_RETURN(MappedFile tokens, MappedFile::Open(TokensPath(prefix)));
  return FromFiles(std::move(index), std::move(tokens), prefix);
}

absl::StatusOr<IndexedDataset> IndexedDataset::FromFiles(MappedFile index, MappedFile tokens,
                                                         const std::filesystem::path& prefix) {
  IndexedDataset dataset;
  dataset.index_ = std::move(index);
  dataset.tokens_ = std::move(tokens);
  RETURN_IF_ERROR(dataset.ParseIndex(prefix));
  RETURN_IF_ERROR(dataset.CheckSequences(prefix));
  RETURN_IF_ERROR(dataset.CheckDocuments(prefix));
  return dataset;
}

absl::Status IndexedDataset::ParseIndex(const std::filesystem::path& prefix) {
  const std::string_view index = index_.bytes();
  RETURN_IF_ERROR(CheckHeader(index, IndexPath(prefix)));
  RETURN_IF_ERROR(CheckCounts(index, IndexPath(prefix)));
  type_ = TokenType{Load<uint8_t>(index, kTypeOffset)};
  num_sequences_ = Load<int64_t>(index, kSequencesOffset);
  num_documents_ = Load<int64_t>(index, kDocumentsOffset) - 1;
  return absl::OkStatus();
}

absl::Status IndexedDataset::CheckSequences(const std::filesystem::path& prefix) const {
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
  const int64_t tokens_bytes = static_cast<int64_t>(tokens_.bytes().size());
  if (tokens_bytes == end) return absl::OkStatus();
  return CorruptFile(TokensPath(prefix),
                     {"length", tokens_bytes, absl::StrCat(tokens_bytes, " bytes"),
                      absl::StrCat(end, " bytes according to the .idx"),
                      "The file is truncated or belongs to another .idx"});
}

absl::Status IndexedDataset::CheckDocuments(const std::filesystem::path& prefix) const {
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

int64_t IndexedDataset::num_tokens() const {
  return static_cast<int64_t>(tokens_.bytes().size()) / ElementBytes(type_);
}

int64_t IndexedDataset::sequence_length(int64_t i) const {
  BRAID_CHECK(i >= 0 && i < num_sequences_) << i << " of " << num_sequences_;
  return Load<int32_t>(index_.bytes(), kLengthsOffset + 4 * i);
}

int64_t IndexedDataset::sequence_offset(int64_t i) const {
  return Load<int64_t>(index_.bytes(), PointersOffset(num_sequences_) + 8 * i);
}

int64_t IndexedDataset::document_begin(int64_t i) const {
  BRAID_CHECK(i >= 0 && i <= num_documents_) << i << " of " << num_documents_;
  return Load<int64_t>(index_.bytes(), DocumentEndsOffset(num_sequences_) + 8 * i);
}

std::vector<int32_t> IndexedDataset::Read(int64_t i) const {
  std::vector<int32_t> tokens;
  ReadInto(i, &tokens);
  return tokens;
}

void IndexedDataset::ReadInto(int64_t i, std::vector<int32_t>* tokens) const {
  tokens->clear();
  AppendRange(i, 0, sequence_length(i), tokens);
}

void IndexedDataset::AppendRange(int64_t i, int64_t begin, int64_t count,
                                 std::vector<int32_t>* tokens) const {
  const int64_t length = sequence_length(i);
  BRAID_CHECK(begin >= 0 && count >= 0 && begin <= length - count)
      << begin << " + " << count << " of " << length;
  const int64_t offset = sequence_offset(i) + begin * ElementBytes(type_);
  const std::string_view bytes = tokens_.bytes().substr(static_cast<size_t>(offset));
  const size_t before = tokens->size();
  tokens->resize(before + static_cast<size_t>(count));
  const auto added = std::span<int32_t>(*tokens).subspan(before);
  switch (type_) {
    case TokenType::kUint8:
      return Widen<uint8_t>(bytes, added);
    case TokenType::kInt8:
      return Widen<int8_t>(bytes, added);
    case TokenType::kInt16:
      return Widen<int16_t>(bytes, added);
    case TokenType::kUint16:
      return Widen<uint16_t>(bytes, added);
    case TokenType::kInt32:
      return Widen<int32_t>(bytes, added);
  }
}

}  // namespace braid
