// Documents of a corpus, read one by one in a fixed order and in bounded memory: 8 bytes a document
// for ids, and for the record being read at most 16 x max_document_bytes (64 MiB by default).
//
// Inputs are JSON lines (.jsonl, .json, .ndjson), text files (.txt), either of them compressed
// (.gz, .zst), and directories, walked recursively in sorted order, in which every UTF-8 file is
// one document. docs/corpus.md is the reference.
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
#include "braid/v1/pipeline.pb.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/json_record.h"
#include "pipeline/corpus/line_reader.h"
#include "pipeline/corpus/reject.h"
#include "pipeline/corpus/text_source.h"

namespace braid {

struct Document {
  // Unique in the corpus.
  std::string id;
  // Valid UTF-8, at least one character that is not white space.
  std::string text;
  // Usable as a file name: see DomainName() in corpus_files.h.
  std::string domain;
  std::string file;
  // Byte of the decompressed file at which the record starts.
  int64_t offset = 0;
  // A field of the record has the domain, not the file's name.
  bool has_domain_field = false;
};

enum class CorpusStep {
  kDocument,
  kNoneYet,  // so many rejects or bytes without a document that the caller should look up
  kEnd,
};

// Where a reader stands between two records: what another reader of the same unchanged files needs
// to go on there, besides the ids seen.
struct CorpusPosition {
  int64_t file = 0;          // index in the order read
  int64_t offset = 0;        // of the decompressed file
  bool inside_file = false;  // the file was opened
  std::string text_field;    // of that file; empty until known
  bool seen_an_object = false;
  int64_t num_accepted = 0;
  std::map<std::string, int64_t> rejects;  // by reason
};

class CorpusReader {
 public:
  // Checks every path, and lists every directory, while it asks `keep_listing`. NOT_FOUND for a
  // missing one, PERMISSION_DENIED for an unreadable one, INVALID_ARGUMENT for a FIFO, socket or
  // device, an unknown kind of file or no file at all; errors of `keep_listing`.
  static absl::StatusOr<std::unique_ptr<CorpusReader>> Open(std::span<const std::string> paths,
                                                            const v1::IngestConfig& config,
                                                            const KeepListing& keep_listing = {});

  // The next document, unless it says otherwise. Appends the records rejected on the way to
  // `rejects`: of a damaged file or a decompression bomb what could not be read, as one. Of a file
  // that does not keep its checksum the records read before have been handed out.
  // INVALID_ARGUMENT when the corpus' first record lacks the text field, when the whole corpus
  // holds no document, and with `strict` for the first reject, with its file, offset and reason;
  // FAILED_PRECONDITION when a file changed while it was read.
  absl::StatusOr<CorpusStep> Next(Document* document, std::vector<Reject>* rejects);

  // Where to resume; nullopt while documents of one record are being handed out.
  std::optional<CorpusPosition> position() const;

  // Hashes of the ids accepted since the last call, for Resume().
  std::vector<uint64_t> TakeIdHashes() { return std::exchange(new_id_hashes_, {}); }

  // Goes to where a reader stood after it had accepted the ids with these hashes. Compressed files
  // are decompressed again up to there; `keep_going` is asked meanwhile and its error is returned.
  // Requires that nothing was read yet. OUT_OF_RANGE when there is no such place.
  absl::Status Resume(const CorpusPosition& position, std::span<const uint64_t> id_hashes,
                      const std::function<absl::Status()>& keep_going);

  // Bytes on disk read so far, and in all.
  int64_t bytes_read() const;
  int64_t total_bytes() const { return total_bytes_; }

  // num_records() == num_accepted() + num_rejected(); an accepted record gives one document, or
  // several when it is split.
  int64_t num_records() const { return num_accepted_ + num_rejected_; }
  int64_t num_accepted() const { return num_accepted_; }
  int64_t num_rejected() const { return num_rejected_; }
  const std::map<std::string, int64_t>& reject_counts() const { return reject_counts_; }

 private:
  CorpusReader(CorpusFiles files, const v1::IngestConfig& config);
  absl::Status Advance();
  absl::Status OpenFile();
  absl::Status CloseFile();
  absl::Status RejectRest(int64_t offset, const absl::Status& damage);
  absl::Status ReadRecord();
  absl::Status ReadTextFile();
  absl::Status AddRecord(const Line& line);
  absl::StatusOr<bool> FindTextField(int64_t offset);
  absl::Status IsAnArray() const;
  absl::Status MissingTextField(int64_t offset) const;
  Document MakeDocument(std::string_view text, int64_t offset) const;
  void AddDocument(Document document);
  void AddPieces(const Document& document);
  void RejectAt(int64_t offset, std::string_view reason, std::string_view detail = {});
  void AddReject(Reject reject);
  absl::Status StrictFailure() const;
  absl::Status CheckNotEmpty() const;
  const CorpusFile& file() const { return files_.files[next_file_]; }

  const v1::IngestConfig config_;
  const int64_t max_document_bytes_;
  const ExpansionLimit expansion_limit_;
  const CorpusFiles files_;
  int64_t total_bytes_ = 0;
  int64_t bytes_of_finished_files_ = 0;
  size_t next_file_ = 0;
  std::unique_ptr<LineReader> lines_;  // of the current JSON lines file; null between files
  JsonRecord record_;
  std::string text_field_;  // of the current file; empty until known
  bool seen_an_object_ = false;
  absl::flat_hash_set<uint64_t> id_hashes_;
  std::vector<uint64_t> new_id_hashes_;
  std::deque<Document> ready_;
  std::vector<Reject> rejects_;  // not yet handed out
  std::map<std::string, int64_t> reject_counts_;
  int64_t num_accepted_ = 0;
  int64_t num_rejected_ = 0;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_READER_H_
