// The records of one file of a corpus: the interface that the reader of each kind of file
// implements (json_line_records.h, text_file_records.h, parquet_records.h, token_file_records.h).
#ifndef BRAID_PIPELINE_CORPUS_RECORD_READER_H_
#define BRAID_PIPELINE_CORPUS_RECORD_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "formats/tokenizer.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/record_filter.h"
#include "pipeline/corpus/text_source.h"

namespace braid {

// The kind of record that a reader found at its position.
enum class RecordKind {
  kText,      // a record with a text, which the caller checks
  kReject,    // a record without a document, for `reason`
  kDamage,    // the rest of the file, or of a row group, which cannot be read, for `reason`
  kFiltered,  // `num_filtered` records that the filter does not keep
  kBlank,     // a line without a record, or a part of a long one
  kEnd,
};

// One step of a reader. Views remain valid until the next step.
struct Record {
  RecordKind kind = RecordKind::kEnd;
  // The byte of the decompressed file, the row of a Parquet file, or the number of a document in an
  // indexed dataset.
  int64_t offset = 0;
  std::string_view text = {};
  std::optional<std::string> id = std::nullopt;
  std::optional<std::string> domain = std::nullopt;
  // The values of the embedding field; empty if there are none.
  std::span<const float> embedding = {};
  // The tokens of a document of an indexed dataset; empty for other files.
  std::span<const int32_t> tokens = {};
  std::string reason = {};
  std::string detail = {};
  int64_t num_filtered = 0;
  // The step has shown which fields the file has.
  bool shows_fields = false;
  // The file has no further records.
  bool is_last = false;
};

// The settings of ingest that readers use.
struct RecordSettings {
  // Names of the text field in order of preference.
  std::vector<std::string> text_fields;
  bool text_field_given = false;
  // True for a command without options that change these settings: error messages then say how to
  // change the files instead.
  bool fixed = false;
  std::string id_field, domain_field;
  std::string embedding_field;  // "": none
  int64_t max_document_bytes = 0;
  ExpansionLimit expansion_limit;
  std::shared_ptr<const RecordFilter> filter;  // null: all records are kept
  std::shared_ptr<const Tokenizer> tokenizer;  // null without indexed datasets

  // Fills in defaults. INVALID_ARGUMENT for a negative number and for a malformed filter.
  static absl::StatusOr<RecordSettings> From(const v1::IngestConfig& config);
};

// The part of the corpus that was read before. In the first record, or the first Parquet file, a
// missing field is an error, because the setting is probably wrong; later, rejecting records is
// better than failing a long job.
struct CorpusSoFar {
  bool fields_shown = false;
  bool has_documents = false;
};

// Reads one file, which is opened by the first call. Not thread-safe.
class RecordReader {
 public:
  // Returns the reader for the kind of the file. Both arguments must outlive it.
  static std::unique_ptr<RecordReader> Create(const CorpusFile& file,
                                              const RecordSettings& settings);
  virtual ~RecordReader() = default;

  // Makes one step. Errors end the job: INVALID_ARGUMENT for settings that do not suit the file and
  // for files of a kind that is not supported; those of the file system.
  virtual absl::StatusOr<Record> Next(const CorpusSoFar& so_far) = 0;

  // The position of the next step. After damage that ends the file, that of the
  // first record that cannot be read.
  virtual int64_t position() const = 0;

  // Returns the text field of the file; "" until it is determined.
  virtual const std::string& text_field() const = 0;

  // Moves to a position at which another reader of the file had this text field. Calls `keep_going`
  // while it reads and returns its error. Requires: Next() was not called. OUT_OF_RANGE when the
  // position does not exist.
  virtual absl::Status SkipTo(int64_t position, const std::string& text_field,
                              const std::function<absl::Status()>& keep_going) = 0;

  // The bytes of the file read so far, as stored on disk.
  virtual int64_t bytes_read() const = 0;
};

// Returns the record that stands for the rest of a file that is damaged or a decompression bomb
// according to `error`; `error` if it is of another kind, such as of the file system.
absl::StatusOr<Record> DamageAt(int64_t offset, const absl::Status& error);

// Returns whether a text starts with a byte order mark of UTF-16 or UTF-32.
bool HasWideByteOrderMark(std::string_view start);

// Returns the INVALID_ARGUMENT error for a field of `setting` that the first record of a corpus, at
// `place`, does not have; `names` are those that it has.
absl::Status MissingField(const std::string& place, std::string_view setting,
                          const std::string& field, const std::vector<std::string>& names);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_RECORD_READER_H_
