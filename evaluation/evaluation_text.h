// The text to score, as tokens. The documents of a domain, each followed by EOS, form one stream,
// which is cut into disjoint windows.
//
// Window w of length L predicts the tokens [w L, (w + 1) L) of its domain's stream; the last window
// predicts the rest. Its input is the token before each of these, which is EOS before the first
// token of the stream. So every token, including every EOS, is predicted exactly once.
#ifndef BRAID_EVALUATION_EVALUATION_TEXT_H_
#define BRAID_EVALUATION_EVALUATION_TEXT_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/document_reader.h"
#include "evaluation/token_bytes.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "trainer/data_loader.h"
#include "trainer/supervised_targets.h"

namespace braid {

// The sequences of a supervised dataset, and which of their tokens count.
struct AnswerWindows {
  std::vector<std::vector<int32_t>> sequences;
  SupervisedTargets targets;
};

struct DomainText {
  std::string name;
  // The tokens to predict.
  std::vector<int32_t> tokens;
  // Bytes of text per token; 0 for BOS and EOS.
  std::vector<int32_t> bytes;
  // Index of the first token of each document, ascending. Not derived from EOS tokens where the
  // documents are known, because a text may contain the characters of EOS.
  std::vector<int64_t> documents;
  // Set for answers: these sequences are the windows, and `tokens` are the targets in them
  // (evaluation/heldout_answers.h).
  std::optional<AnswerWindows> answers = std::nullopt;

  int64_t num_windows(int64_t length) const;
};

struct EvaluationText {
  std::vector<DomainText> domains;
  int32_t eos_id = 0;

  int64_t num_windows(int64_t length) const;
};

// Returns windows [begin, begin + count) of `domain`, which must exist, as inputs and targets
// [count, length]. Requires `length` of at least that of the sequences of answers.
Batch LoadWindows(const DomainText& domain, int64_t begin, int64_t count, int64_t length,
                  int32_t eos);

// Returns the held-out split of a packed dataset, with its windows joined again: at most
// `max_tokens` per domain (0: all). FailedPrecondition when the dataset has no held-out split,
// DataLoss for a token outside the vocabulary.
absl::StatusOr<EvaluationText> HeldoutText(const std::filesystem::path& dataset_dir,
                                           const DatasetInfo& info, const TokenBytes& bytes,
                                           int64_t max_tokens);

// Returns the documents of `paths`, with domains in order of first occurrence. Each is followed by
// EOS and, if `begin_with_bos`, preceded by BOS, as in a dataset packed so. Errors are those of the
// reader; FailedPrecondition when the tokenizer has no BOS token to begin with.
absl::StatusOr<EvaluationText> TextOfFiles(std::span<const std::string> paths,
                                           const DocumentReader& reader, const Tokenizer& tokenizer,
                                           bool begin_with_bos, int64_t max_tokens,
                                           ReadSummary* summary);

}  // namespace braid

#endif  // BRAID_EVALUATION_EVALUATION_TEXT_H_
