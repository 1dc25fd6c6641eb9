// Random texts for tests of tokenizers.
#ifndef BRAID_TESTS_FORMATS_RANDOM_TEXT_H_
#define BRAID_TESTS_FORMATS_RANDOM_TEXT_H_

#include <cstdint>
#include <random>
#include <string>

namespace braid {

// Returns lines of words, indented like code.
std::string RandomLines(uint64_t seed, int num_lines);

// Returns mostly white space, characters special to SentencePiece and words; sometimes any code
// point.
std::string RandomText(std::mt19937_64& random);

// Returns white space, contractions, digits, letters of several cases, marks, and any characters.
std::string RandomPieces(std::mt19937_64& random);

void AppendUtf8(uint32_t code_point, std::string* out);

}  // namespace braid

#endif  // BRAID_TESTS_FORMATS_RANDOM_TEXT_H_
