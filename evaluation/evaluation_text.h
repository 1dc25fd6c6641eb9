// The text to score, as tokens: documents by domain, each followed by EOS, in one
// stream a domain that is cut into disjoint windows.
//
// Window w of length L predicts the tokens [w L, (w + 1) L) of its domain's stream, the
// last one what is left. It sees the token before each of them, which is EOS before the
// first of all. So every token, every EOS included, is predicted exactly once.
#ifndef BRAID_EVALUATION_EVALUATION_TEXT_H_
#define BRAID_EVALUATION_EVALUATION_TEXT_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/document_reader.h"
#include "evaluation/token_bytes.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "trainer/data_loader.h"

namespace braid {

struct DomainText {
  std::string name;
  std::vector<int32_t> tokens;
  // Bytes of text that each token stands for; 0 for EOS.
  std::vector<int32_t> bytes;
  // Index of the first token of each document, ascending. Not told from EOS where documents are
  // known: a text may itself hold what a tokenizer takes for EOS.
  std::vector<int64_t> documents;

  int64_t num_windows(int64_t length) const;
};

struct EvaluationText {
  std::vector<DomainText> domains;
  int32_t eos_id = 0;

  int64_t num_windows(int64_t length) const;
};

// Windows [begin, begin + count) of `domain`, which must be there: inputs and targets
// [count, length].
Batch LoadWindows(const DomainText& domain, int64_t begin, int64_t count, int64_t length,
                  int32_t eos);

// The held-out split of a packed dataset, whose windows are joined again. At most
// `max_tokens` of each domain; 0: all. FailedPrecondition when nothing was held out,
// DataLoss for a token outside the vocabulary.
absl::StatusOr<EvaluationText> HeldoutText(const std::filesystem::path& dataset_dir,
                                           const DatasetInfo& info, const TokenBytes& bytes,
                                           int64_t max_tokens);

// The documents of `paths`, domains in the order met. Errors are those of the reader.
absl::StatusOr<EvaluationText> TextOfFiles(std::span<const std::string> paths,
                                           const DocumentReader& reader, const Tokenizer& tokenizer,
                                           int64_t max_tokens, ReadSummary* summary);

}  // namespace braid

#endif  // BRAID_EVALUATION_EVALUATION_TEXT_H_
