// The features of a text for the hashing embedder: hashed word n-grams.
#ifndef BRAID_RETRIEVAL_WORD_NGRAMS_H_
#define BRAID_RETRIEVAL_WORD_NGRAMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Returns the words of UTF-8 text, joined by single spaces. A word is a maximal run of ASCII
// letters, digits and '_' and of non-ASCII characters, with ASCII letters lower-cased; general and
// CJK punctuation (U+0080-00BF, U+2000-2FFF, U+3000-303F) separates words; each kana or Han
// character (U+3040-9FFF) is a word of its own, as those scripts do not separate words by spaces.
std::string NormalizeWords(std::string_view text);

// Returns the XXH3 hashes (64 bits, seed 0) of every run of 1 to max_ngram consecutive words in
// NormalizeWords(text), ascending, each as often as it occurs. Requires max_ngram >= 1.
std::vector<uint64_t> WordNgramHashes(std::string_view text, int32_t max_ngram);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_WORD_NGRAMS_H_
