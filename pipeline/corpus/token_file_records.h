// The documents of a Megatron-LM indexed dataset (formats/indexed_dataset.h) as records: their
// tokens, and the text that the tokenizer which made them decodes them to.
#ifndef BRAID_PIPELINE_CORPUS_TOKEN_FILE_RECORDS_H_
#define BRAID_PIPELINE_CORPUS_TOKEN_FILE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/indexed_dataset.h"
#include "pipeline/corpus/record_reader.h"

namespace braid {

// Positions are document numbers. All fields that a filter names are null. A BOS token at the
// beginning and EOS tokens at the end of a document are left out: packing adds its own.
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
  absl::Status Open();
  absl::Status ReadTokens(int64_t document);

  const CorpusFile& file_;
  const RecordSettings& settings_;
  const std::string no_field_;
  std::optional<IndexedDataset> dataset_;
  int64_t next_ = 0;
  std::vector<int32_t> tokens_;
  std::string text_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_TOKEN_FILE_RECORDS_H_
