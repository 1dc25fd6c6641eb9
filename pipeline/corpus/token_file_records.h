// The documents of a Megatron-LM indexed dataset (formats/sequence_index.h) as records: their
// tokens, and the text that the tokenizer which made them decodes them to.
#ifndef BRAID_PIPELINE_CORPUS_TOKEN_FILE_RECORDS_H_
#define BRAID_PIPELINE_CORPUS_TOKEN_FILE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/client_file.h"
#include "formats/sequence_index.h"
#include "pipeline/corpus/record_reader.h"

namespace braid {

// Positions are document numbers. Memory: the .idx, 20 bytes per document of one sequence, and the
// tokens of a document that may not be too long. All fields that a filter names are null. A BOS
// token at the beginning and EOS tokens at the end of a document are left out: packing adds its
// own.
class TokenFileRecords final : public RecordReader {
 public:
  // Requires settings.tokenizer.
  TokenFileRecords(const CorpusFile& file, const RecordSettings& settings)
      : file_(file), settings_(settings) {}

  // Errors beside those of the interface: INVALID_ARGUMENT for a token that the tokenizer does not
  // have, and for elements that are not integers of at most 32 bits.
  absl::StatusOr<Record> Next(const CorpusSoFar& so_far) override;
  int64_t position() const override { return next_; }
  const std::string& text_field() const override { return no_field_; }
  absl::Status SkipTo(int64_t position, const std::string& text_field,
                      const std::function<absl::Status()>& keep_going) override;
  int64_t bytes_read() const override;

 private:
  struct ByteRange {
    int64_t offset = 0;
    int64_t size = 0;
  };

  absl::Status Open();
  ByteRange RangeOf(int64_t document) const;
  absl::Status TakeTokens(int64_t document, const std::string& bytes);

  const CorpusFile& file_;
  const RecordSettings& settings_;
  const std::string no_field_;
  // Not mapped: a client may make the files shorter while they are read.
  std::string index_bytes_;
  std::unique_ptr<const ClientFile> file_bytes_;
  std::optional<SequenceIndex> index_;  // a view of index_bytes_
  int64_t next_ = 0;
  std::vector<int32_t> tokens_;
  std::string text_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_TOKEN_FILE_RECORDS_H_
