// Reads the documents of a corpus one by one, in a fixed order and in bounded memory: 8 bytes per
// document for ids, at most 16 x max_document_bytes (64 MiB by default) for the current record, and
// the .idx of the current indexed dataset.
//
// Inputs are Parquet (.parquet), JSON lines (.jsonl, .json, .ndjson), text files (.txt), these also
// compressed (.gz, .zst, .zstd), Megatron-LM indexed datasets (.bin with .idx), and directories,
// which are walked recursively in sorted order and in which every UTF-8 file is a document.
// docs/corpus.md is the reference.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CorpusReader> reader, CorpusReader::Open(paths, config));
//   Document document;
//   std::vector<Reject> rejects;
//   while (true) {
//     ASSIGN_OR_RETURN(CorpusStep step, reader->Next(&document, &rejects));
//     Log(&rejects);  // and clear them
//     if (step == CorpusStep::kEnd) break;
//     if (step == CorpusStep::kDocument) Use(document);
//   }
#ifndef BRAID_PIPELINE_CORPUS_CORPUS_READER_H_
#define BRAID_PIPELINE_CORPUS_CORPUS_READER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/record_reader.h"
#include "pipeline/corpus/reject.h"

namespace braid {

// One document.
struct Document {
  // Unique in the corpus.
  std::string id;
  // Valid UTF-8 with at least one character that is not white space.
  std::string text;
  // A valid file name: see DomainName() in corpus_files.h.
  std::string domain;
  std::string file;
  // The byte of the decompressed file at which the record starts, or its row or number.
  int64_t offset = 0;
  // True if the domain comes from a field of the record, not from the file name.
  bool has_domain_field = false;
  // Finite and not zero, of the same dimension in all documents; empty without
  // ingest.embedding_field.
  std::vector<float> embedding = {};
  // The tokens of which `text` is the decoded form; empty for files of text.
  std::vector<int32_t> tokens = {};
};

enum class CorpusStep {
  kDocument,
  // Many records or bytes without a document: the caller should report progress.
  kNoneYet,
  kEnd,
};

// The position of a reader between two records. Together with the hashes of the ids read so far, it
// is what another reader of the same unchanged files needs to continue there.
struct CorpusPosition {
  int64_t file = 0;          // index in the order read
  int64_t offset = 0;        // position in the decompressed file, or row, or number of a document
  bool inside_file = false;  // the file was opened
  std::string text_field;    // field in that file; empty until determined
  bool seen_an_object = false;  // which fields the corpus has was shown
  int64_t num_accepted = 0;
  int64_t num_filtered = 0;
  int64_t num_field_records = 0;
  int64_t embedding_dimension = 0;         // 0 until determined
  std::map<std::string, int64_t> rejects;  // by reason
};

// A reader of one corpus. Not thread-safe.
class CorpusReader {
 public:
  // Checks the settings and lists the files. `tokenizer` is the file of the tokenizer that made the
  // indexed datasets among them, if there are any. Errors: those of RecordSettings::From and of
  // FindCorpusFiles(), including those of `keep_listing`; INVALID_ARGUMENT for indexed datasets
  // without a tokenizer, beside files of text, or with ingest.split_bytes or embedding_field; those
  // of loading the tokenizer.
  static absl::StatusOr<std::unique_ptr<CorpusReader>> Open(std::span<const std::string> paths,
                                                            const v1::IngestConfig& config,
                                                            const KeepListing& keep_listing = {},
                                                            const std::string& tokenizer = {});

  // Opens a corpus of text with default settings for a caller that has no options for them: errors
  // name what to change in the files. INVALID_ARGUMENT for indexed datasets.
  static absl::StatusOr<std::unique_ptr<CorpusReader>> OpenText(std::span<const std::string> paths);

  // Advances by one step and stores the next document if the step is kDocument. Appends the records
  // that were rejected in this step to `rejects`; the unreadable rest of a damaged file or of a
  // decompression bomb counts as one record. If a file turns out to fail its checksum, the records
  // before were already returned.
  // Errors: INVALID_ARGUMENT when the first record of the corpus lacks the text field or another
  // one that the settings name, when the corpus has no document, and, in strict mode, for the first
  // reject, with its file, offset and reason; FAILED_PRECONDITION when a file changed while it was
  // read; UNAVAILABLE and others of the file system.
  absl::StatusOr<CorpusStep> Next(Document* document, std::vector<Reject>* rejects);

  // Returns the position from which to resume; nullopt between the documents of one record, and
  // where a part of a record may have been read.
  std::optional<CorpusPosition> position() const;

  // Returns the hashes of the ids accepted since the last call, for Resume(): those of records and
  // of the parts that they were split into.
  std::vector<uint64_t> TakeIdHashes() { return std::exchange(new_id_hashes_, {}); }

  // Moves to a position at which another reader had accepted the ids with these hashes. A
  // compressed file is decompressed again up to the position; meanwhile `keep_going` is called and
  // its error returned. Requires: Next() was not called. OUT_OF_RANGE when the position does not
  // exist.
  absl::Status Resume(const CorpusPosition& position, std::span<const uint64_t> id_hashes,
                      const std::function<absl::Status()>& keep_going);

  // The bytes of the files read so far and in total, as stored on disk.
  int64_t bytes_read() const;
  int64_t total_bytes() const { return total_bytes_; }

  // num_records() == num_accepted() + num_rejected() + num_filtered(). An accepted record gives one
  // document, or several when it is split.
  int64_t num_records() const { return num_accepted_ + num_rejected_ + num_filtered_; }
  int64_t num_accepted() const { return num_accepted_; }
  int64_t num_rejected() const { return num_rejected_; }
  // The records that ingest.where does not keep.
  int64_t num_filtered() const { return num_filtered_; }
  // The vocabulary of the tokens that all documents have; 0 for a corpus of text.
  int64_t vocab_size() const {
    return settings_.tokenizer != nullptr ? settings_.tokenizer->vocab_size() : 0;
  }
  const std::map<std::string, int64_t>& reject_counts() const { return reject_counts_; }
  // Returns a sentence for each input that is probably read in another way than intended: files of
  // records that are documents, and a domain field that no record has. Requires: Next() has
  // returned kEnd.
  std::vector<std::string> Notes() const;

 private:
  CorpusReader(CorpusFiles files, const v1::IngestConfig& config, RecordSettings settings);
  absl::Status Advance();
  absl::Status CloseFile();
  Document MakeDocument(const Record& record) const;
  std::string_view Problem(const Document& document) const;
  bool EnterIds(const Document& document, std::span<const Document> parts);
  void AddDocument(Document document);
  std::vector<Document> Parts(const Document& document) const;
  void AddRejectedRecord(const Record& record);
  void RejectDocument(const Document& document, std::string_view reason);
  void AddReject(Reject reject);
  std::string PlaceOf(const Reject& reject) const;
  absl::Status StrictFailure() const;
  absl::Status CheckNotEmpty() const;
  const CorpusFile& file() const { return files_.files[next_file_]; }
  int64_t position_in_file() const { return records_ != nullptr ? records_->position() : 0; }

  const v1::IngestConfig config_;
  const RecordSettings settings_;
  const CorpusFiles files_;
  int64_t total_bytes_ = 0;
  int64_t bytes_of_finished_files_ = 0;
  size_t next_file_ = 0;
  std::unique_ptr<RecordReader> records_;  // reader of the current file; null between files
  bool may_be_inside_record_ = false;      // the last step may have read a part of a long line
  bool seen_an_object_ = false;
  int64_t embedding_dimension_ = 0;
  absl::flat_hash_set<uint64_t> id_hashes_;
  std::vector<uint64_t> new_id_hashes_;
  std::deque<Document> ready_;
  std::vector<Reject> rejects_;  // not yet returned
  std::map<std::string, int64_t> reject_counts_;
  int64_t num_accepted_ = 0;
  int64_t num_rejected_ = 0;
  int64_t num_filtered_ = 0;
  int64_t num_field_records_ = 0;  // accepted ones whose domain comes from a field
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_READER_H_
