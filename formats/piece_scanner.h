// Splitting of text into the pieces within which byte-level BPE merges.
//
// Tokenizers of the GPT-2 family cut text by a regular expression before they merge bytes. The
// expressions of the common families are scanned by hand; their text is
//
//   GPT-2     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   LLaMA 3   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//              ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen 2    LLaMA 3's with \p{N} instead of \p{N}{1,3}
//   GPT-4o    words cut before a capital letter, [\r\n/]* after punctuation
//   Tekken    GPT-4o's with \p{N} instead of \p{N}{1,3} and without contractions
//   DeepSeek  three, one after the other: \p{N}{1,3}; ideographs and kana; and
//             [!-/:-@[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
//             \s*[\r\n]+|\s+(?!\S)|\s+
//
// Other expressions are matched by ICU.
#ifndef BRAID_FORMATS_PIECE_SCANNER_H_
#define BRAID_FORMATS_PIECE_SCANNER_H_

#include <unicode/uversion.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

U_NAMESPACE_BEGIN
class RegexPattern;
U_NAMESPACE_END

namespace braid {

// A text that a tokenizer cannot cut. An exception, since it ends the work on the text, far below
// functions that return tokens.
class TokenizationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The rules by which one family of tokenizers cuts text; the fields are the differences between the
// expressions.
struct PieceRules {
  // \p{L}+; cut before a capital letter (GPT-4o), before contractions; [\p{L}\p{M}]+ (DeepSeek).
  enum class Words { kPlain, kCased, kMarked };
  enum class Contractions { kNone, kLower, kAnyCase };
  Words words = Words::kPlain;
  Contractions contractions = Contractions::kNone;
  bool any_prefix = false;  // a word may begin with any one character but \r and \n
  bool space_before_digits = false;
  size_t max_digits = 0;                // digits in a piece; 0: unlimited
  std::string_view after_symbols = {};  // characters that may follow punctuation
  bool lines = false;                   // \s*[\r\n]+ is a piece
};

// A sequence of cuts. Immutable; thread-safe.
class PieceScanner {
 public:
  // Cuts at every match of `regex`, read as Oniguruma does, and between matches. UNIMPLEMENTED for
  // an expression that ICU does not have, or whose meaning differs in it (such as \w, \b, {1,3}+).
  absl::Status AddExpression(std::string_view regex);
  // Cuts around digits, \p{N}: around each one, or around runs of them.
  void AddDigits(bool individual);

  // Returns whether `regex` is one of the expressions above of which every text is a row of
  // matches; DeepSeek's leave some text between matches. False for other expressions.
  static bool MatchesAllText(std::string_view regex);

  // Calls `piece` with consecutive parts of `text`, which must be valid UTF-8. Throws a
  // TokenizationError that names the expression when ICU cannot match it within limits of time and
  // stack, or has no way to read so long a text.
  void Split(std::string_view text, absl::FunctionRef<void(std::string_view)> piece) const;

  // Returns whether an expression is matched by ICU.
  bool uses_icu() const;

 private:
  // kParts: all three cuts of DeepSeek.
  enum class Kind { kRules, kDigits, kIdeographs, kParts, kIcu };
  struct Cut {
    Kind kind;
    PieceRules rules = {};  // with kDigits only max_digits is used
    std::shared_ptr<const icu::RegexPattern> regex = nullptr;  // only with kIcu
  };
  void SplitFrom(size_t cut, std::string_view text,
                 absl::FunctionRef<void(std::string_view)> piece) const;

  std::vector<Cut> cuts_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_PIECE_SCANNER_H_
