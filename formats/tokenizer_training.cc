#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_process.h"

namespace braid {
namespace {

constexpr int32_t kMinVocabSize = 259;  // <unk>, <s>, </s> and 256 bytes
// SentencePiece aborts at a "word" of 65536 characters. Shorter sentences give the same pieces.
constexpr size_t kMaxSentenceBytes = 4096;
// The words of SentencePiece's messages before the largest and the smallest size that would work.
constexpr char kAtMost[] = "value <= ", kAtLeast[] = " vs ";

size_t SentenceBytes(std::string_view rest) {
  if (rest.size() <= kMaxSentenceBytes) return rest.size();
  const size_t line = rest.substr(0, kMaxSentenceBytes).rfind('\n');
  if (line != std::string_view::npos) return line + 1;
  return Utf8PrefixLength(rest, kMaxSentenceBytes);
}

// Cuts a text into sentences. A newline becomes a tab, SentencePiece's own mark for a place that no
// piece may cross. So pieces are learned from lines as they occur in texts, where only the first
// line has the dummy space. Like the tab, the newline stays a byte token.
absl::Status AddText(std::string_view text, TokenizerProcess* process) {
  while (!text.empty()) {
    std::string sentence(text.substr(0, SentenceBytes(text)));
    text.remove_prefix(sentence.size());
    std::ranges::replace(sentence, '\n', '\t');
    RETURN_IF_ERROR(process->AddSentence(sentence));
  }
  return absl::OkStatus();
}

// Returns the number after the last occurrence of `words` in `message`, or "".
std::string NumberAfter(std::string_view message, std::string_view words) {
  const size_t found = message.rfind(words);
  if (found == std::string_view::npos) return "";
  const std::string_view rest = message.substr(found + words.size());
  return std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// Returns the size that SentencePiece names when it refuses another one.
std::optional<int32_t> FittingSize(std::string_view message) {
  for (const char* const words : {kAtMost, kAtLeast}) {
    int32_t size = 0;
    if (absl::SimpleAtoi(NumberAfter(message, words), &size)) return size;
  }
  return std::nullopt;
}

absl::Status TrainingError(int32_t vocab_size, const std::string& message) {
  if (const std::string most = NumberAfter(message, kAtMost); !most.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer: vocab_size ", vocab_size, " is too large for the sample: got ", vocab_size,
        ", expected at most ", most, "; lower tokenizer.vocab_size or add text"));
  }
  if (const std::string least = NumberAfter(message, kAtLeast); !least.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer: vocab_size ", vocab_size, " is too small for the sample's characters: got ",
        vocab_size, ", expected at least ", least, "; raise tokenizer.vocab_size"));
  }
  return absl::InternalError(absl::StrCat("SentencePiece training failed: ", message));
}

absl::Status CheckRequest(std::span<const std::string> texts,
                          const TokenizerTrainingOptions& options) {
  if (options.vocab_size < kMinVocabSize + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer: vocab_size: got ", options.vocab_size, ", expected more than ",
                     kMinVocabSize, ", the number of special and byte pieces"));
  }
  if (std::ranges::all_of(texts, &std::string::empty)) {
    return absl::InvalidArgumentError(
        "tokenizer: the training sample is empty; use a corpus with text or a trained model");
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerProcess::Outcome> TrainOnce(
    std::span<const std::string> texts, const TokenizerTrainingOptions& options,
    const std::function<absl::Status()>& keep_going) {
  ASSIGN_OR_RETURN(TokenizerProcess process, TokenizerProcess::Create());
  for (const std::string& text : texts) RETURN_IF_ERROR(AddText(text, &process));
  return process.Train(options.vocab_size, options.character_coverage, keep_going);
}

}  // namespace

absl::Status TrainTokenizer(std::span<const std::string> texts,
                            const TokenizerTrainingOptions& options,
                            const std::filesystem::path& output_model,
                            const std::function<absl::Status()>& keep_going) {
  RETURN_IF_ERROR(CheckRequest(texts, options));
  TokenizerTrainingOptions used = options;
  ASSIGN_OR_RETURN(TokenizerProcess::Outcome outcome, TrainOnce(texts, used, keep_going));
  if (!outcome.trained && options.fit_vocab_size) {
    if (const std::optional<int32_t> size = FittingSize(outcome.text)) {
      used.vocab_size = *size;
      ASSIGN_OR_RETURN(outcome, TrainOnce(texts, used, keep_going));
    }
  }
  if (!outcome.trained) return TrainingError(used.vocab_size, outcome.text);
  return WriteFileAtomically(output_model, outcome.text);
}

}  // namespace braid
