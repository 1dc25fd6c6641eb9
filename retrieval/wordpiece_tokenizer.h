// BERT's WordPiece tokenizer: text to ids, as bert-base-uncased does it (Devlin et
// al., arXiv 1810.04805; the order of its steps is Hugging Face's BertTokenizer).
//
//   ASSIGN_OR_RETURN(const auto tokenizer, WordPieceTokenizer::Load(model_directory));
//   const WordPieces pieces = tokenizer.Encode("Ünïcode tèxt", 512);
//   // [CLS] unicode text [SEP]
#ifndef BRAID_RETRIEVAL_WORDPIECE_TOKENIZER_H_
#define BRAID_RETRIEVAL_WORDPIECE_TOKENIZER_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/wordpiece_vocabulary.h"

namespace braid {

struct WordPieces {
  std::vector<int32_t> ids;  // [CLS] ... [SEP]
  // The text had more pieces than there was room for.
  bool truncated = false;
};

// Thread-safe. Text that spells a special token, such as "[SEP]", is text: no text can
// make one.
class WordPieceTokenizer {
 public:
  // Reads vocab.txt and, where there is one, tokenizer_config.json of a directory in
  // Hugging Face layout: do_lower_case (default true). NOT_FOUND without a
  // vocabulary, INVALID_ARGUMENT for a malformed one and for settings that this
  // tokenizer does not know (strip_accents, tokenize_chinese_chars other than usual).
  static absl::StatusOr<WordPieceTokenizer> Load(const std::filesystem::path& directory);

  WordPieceTokenizer(WordPieceVocabulary vocabulary, bool lower_case)
      : vocabulary_(std::move(vocabulary)), lower_case_(lower_case) {}

  // At most max_tokens ids, [CLS] and [SEP] among them. Bytes that are not UTF-8 are
  // dropped. Requires max_tokens >= 2.
  WordPieces Encode(std::string_view text, int32_t max_tokens) const;

  const WordPieceVocabulary& vocabulary() const { return vocabulary_; }
  // Everything that decides the ids, the vocabulary by its digest: for fingerprints.
  std::string Settings() const;

 private:
  WordPieceVocabulary vocabulary_;
  bool lower_case_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_WORDPIECE_TOKENIZER_H_
