#include "formats/indexed_dataset.h"

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are copied without conversion");

constexpr int64_t kUint16VocabLimit = 65500;

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

std::filesystem::path LengthsPath(const std::filesystem::path& prefix) {
  auto path = prefix;
  return path += ".lengths";
}

}  // namespace

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
    std::vector<uint64_t> counts;
    TakeValues(2, &rest, &counts);
    const uint64_t num_lengths = counts[0], num_ends = counts[1];
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
  IndexedDataset dataset;
  ASSIGN_OR_RETURN(dataset.index_bytes_, MappedFile::Open(IndexPath(prefix)));
  ASSIGN_OR_RETURN(dataset.tokens_, MappedFile::Open(TokensPath(prefix)));
  ASSIGN_OR_RETURN(dataset.index_,
                   SequenceIndex::Parse(dataset.index_bytes_.bytes(),
                                        std::ssize(dataset.tokens_.bytes()), prefix));
  return dataset;
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
  const int64_t size = ElementBytes(token_type());
  AppendTokens(token_type(),
               tokens_.bytes().substr(static_cast<size_t>(index_.sequence_offset(i) + begin * size),
                                      static_cast<size_t>(count * size)),
               tokens);
}

}  // namespace braid
