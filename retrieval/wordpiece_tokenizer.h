// The WordPiece tokenizer of BERT: from text to ids as in bert-base-uncased (Devlin et al., arXiv
// 1810.04805; the order of the steps is that of Hugging Face's BertTokenizer).
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
  // True if the text had more pieces than fit.
  bool truncated = false;
};

// Thread-safe. Text that spells a special token, such as "[SEP]", is ordinary text.
class WordPieceTokenizer {
 public:
  // Reads vocab.txt, or tokenizer.json without one, and, if it exists, tokenizer_config.json of a
  // directory in Hugging Face layout: do_lower_case (default true). NOT_FOUND if there is no
  // vocabulary, INVALID_ARGUMENT for a malformed one and for settings that this tokenizer does not
  // support (unusual values of strip_accents, tokenize_chinese_chars).
  static absl::StatusOr<WordPieceTokenizer> Load(const std::filesystem::path& directory);

  WordPieceTokenizer(WordPieceVocabulary vocabulary, bool lower_case)
      : vocabulary_(std::move(vocabulary)), lower_case_(lower_case) {}

  // Returns at most max_tokens ids, including [CLS] and [SEP]. Bytes that are not UTF-8 are
  // dropped. Requires max_tokens >= 2.
  WordPieces Encode(std::string_view text, int32_t max_tokens) const;

  const WordPieceVocabulary& vocabulary() const { return vocabulary_; }
  bool lower_case() const { return lower_case_; }
  // Returns everything that determines the ids, the vocabulary by its digest, for fingerprints.
  std::string Settings() const;

 private:
  WordPieceVocabulary vocabulary_;
  bool lower_case_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_WORDPIECE_TOKENIZER_H_
