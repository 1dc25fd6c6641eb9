// Megatron-LM indexed datasets: token sequences in PREFIX.bin; their lengths, offsets and grouping
// into documents in PREFIX.idx. See docs/formats/indexed_dataset.md.
//
//   ASSIGN_OR_RETURN(auto writer, IndexedDatasetWriter::Create(prefix, vocab_size));
//   RETURN_IF_ERROR(writer->AddSequence(tokens));
//   writer->EndDocument();
//   ASSIGN_OR_RETURN(std::vector<FileSummary> files, writer->Commit());
//
//   ASSIGN_OR_RETURN(auto dataset, IndexedDataset::Open(prefix));
//   std::vector<int32_t> first = dataset.Read(0);
#ifndef BRAID_FORMATS_INDEXED_DATASET_H_
#define BRAID_FORMATS_INDEXED_DATASET_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "formats/sequence_index.h"

namespace braid {

// Writes a dataset sequence by sequence. Tokens are streamed; memory use is 12 bytes per sequence.
// Not thread-safe.
class IndexedDatasetWriter {
 public:
  // Creates both files. Tokens are stored as uint16 if vocab_size < 65500, else as int32
  // (Megatron's rule). INVALID_ARGUMENT if vocab_size < 1.
  static absl::StatusOr<std::unique_ptr<IndexedDatasetWriter>> Create(
      const std::filesystem::path& prefix, int64_t vocab_size);

  // Continues after the sequences that Sync() made durable; see AtomicFile::Resume().
  static absl::StatusOr<std::unique_ptr<IndexedDatasetWriter>> Resume(
      const std::filesystem::path& prefix, int64_t vocab_size, const DurablePrefixes& synced);

  // Appends a sequence, possibly empty, to the current document. INVALID_ARGUMENT for a token
  // outside [0, vocab_size); nothing is added then.
  absl::Status AddSequence(std::span<const int32_t> tokens);

  // Ends the current document, which may be empty.
  void EndDocument();

  // Makes the sequences and documents so far durable; see AtomicFile::Sync(). Their lengths are
  // written to PREFIX.lengths.tmp, which the owner of the directory must remove: until then even a
  // committed dataset can be resumed.
  absl::Status Sync(DurablePrefixes* synced);

  // Ends an open document and publishes .bin, then .idx. Returns their summaries in that order.
  absl::StatusOr<std::vector<FileSummary>> Commit();

  int64_t num_sequences() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  IndexedDatasetWriter(std::filesystem::path prefix, std::unique_ptr<AtomicFile> tokens,
                       int64_t vocab_size);
  std::string FormatIndex() const;
  absl::Status ReadLengths();

  std::filesystem::path prefix_;
  std::unique_ptr<AtomicFile> tokens_;
  int64_t vocab_size_;
  TokenType type_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> document_ends_ = {0};  // running counts of sequences
  int64_t num_tokens_ = 0;
  std::unique_ptr<AtomicFile> synced_lengths_;  // null until the first Sync()
  size_t num_synced_lengths_ = 0;
  size_t num_synced_ends_ = 0;
  std::string scratch_;
};

// Memory-mapped reader of datasets with integer tokens of at most 32 bits, written by braid or by
// Megatron-LM. Thread-safe.
class IndexedDataset {
 public:
  // Checks the whole index for consistency and against the length of the .bin. DATA_LOSS if they
  // disagree; INVALID_ARGUMENT for float or int64 elements.
  static absl::StatusOr<IndexedDataset> Open(const std::filesystem::path& prefix);

  int64_t num_sequences() const { return index_.num_sequences(); }
  int64_t num_documents() const { return index_.num_documents(); }
  int64_t num_tokens() const { return index_.num_tokens(); }
  TokenType token_type() const { return index_.type(); }

  // Returns the length of sequence i in tokens. Requires 0 <= i < num_sequences().
  int64_t sequence_length(int64_t i) const { return index_.sequence_length(i); }
  std::vector<int32_t> Read(int64_t i) const;
  void ReadInto(int64_t i, std::vector<int32_t>* tokens) const;
  // Appends tokens [begin, begin + count) of sequence i, which must lie within it.
  void AppendRange(int64_t i, int64_t begin, int64_t count, std::vector<int32_t>* tokens) const;

  // Returns the first sequence of document i, whose sequences are [document_begin(i),
  // document_begin(i + 1)). Requires 0 <= i <= num_documents().
  int64_t document_begin(int64_t i) const { return index_.document_begin(i); }

 private:
  MappedFile tokens_;
  MappedFile index_bytes_;
  SequenceIndex index_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_INDEXED_DATASET_H_
