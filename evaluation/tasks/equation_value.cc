#include "evaluation/tasks/equation_value.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/splitmix.h"

namespace braid {
namespace {

constexpr int kDeepest = 64;
// Longest text that is parsed; equations of word problems are much shorter. The time of the
// conversion to prefix notation is quadratic in the length, and the depth of recursion linear.
constexpr size_t kMostEquationBytes = 4096;

bool IsOperator(char c) { return c == '+' || c == '-' || c == '*' || c == '/'; }
bool IsVariableCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}
bool IsOperandCharacter(char c) { return IsVariableCharacter(c) || c == '.'; }

// An expression: its value, and its text in prefix notation.
struct Term {
  double value = 0;
  std::string prefix = {};
};

// A recursive-descent parser. After an error `failed` is set and terms have no meaning.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  std::optional<Term> Infix() { return Finished(Sum()); }
  std::optional<Term> Prefix() { return Finished(PrefixTerm()); }

 private:
  std::optional<Term> Finished(Term term) {
    if (failed_ || Next() != '\0' || !std::isfinite(term.value)) return std::nullopt;
    return term;
  }

  // Returns the next character that is not white space; 0 at the end.
  char Next() {
    while (!text_.empty() && absl::ascii_isspace(static_cast<unsigned char>(text_.front()))) {
      text_.remove_prefix(1);
    }
    return text_.empty() ? '\0' : text_.front();
  }

  bool Take(char c) {
    if (Next() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  // Returns the one that was taken; 0 if none was.
  char TakeEither(char a, char b) {
    if (failed_) return '\0';
    return Take(a) ? a : Take(b) ? b : '\0';
  }

  Term Fail() {
    failed_ = true;
    return {};
  }

  Term Combined(char sign, const Term& a, const Term& b) {
    if (sign == '/' && b.value == 0) return Fail();
    const double value = sign == '+'   ? a.value + b.value
                         : sign == '-' ? a.value - b.value
                         : sign == '*' ? a.value * b.value
                                       : a.value / b.value;
    return {value, absl::StrCat(std::string(1, sign), " ", a.prefix, " ", b.prefix)};
  }

  Term Sum() {
    Term term = Product();
    while (const char sign = TakeEither('+', '-')) term = Combined(sign, term, Product());
    return term;
  }

  Term Product() {
    Term term = Factor();
    while (const char sign = TakeEither('*', '/')) term = Combined(sign, term, Factor());
    return term;
  }

  Term Factor() {
    if (++depth_ > kDeepest) return Fail();
    Term term;
    if (Take('-')) {
      term = Combined('-', {0, "0"}, Factor());
    } else if (Take('(')) {
      term = Sum();
      if (!Take(')')) Fail();
    } else {
      term = Operand();
    }
    --depth_;
    return term;
  }

  Term PrefixTerm() {
    const char sign = Next();
    if (!IsOperator(sign)) return Operand();
    if (++depth_ > kDeepest) return Fail();
    Take(sign);
    // "-2" is a number, since white space follows operators.
    if (sign == '-' && !text_.empty() && IsOperandCharacter(text_.front())) {
      --depth_;
      return Combined('-', {0, "0"}, Operand());
    }
    const Term a = PrefixTerm();
    const Term b = failed_ ? Term() : PrefixTerm();
    --depth_;
    return Combined(sign, a, b);
  }

  // A number, or a name.
  Term Operand() {
    Next();
    size_t size = 0;
    while (size < text_.size() && IsOperandCharacter(text_[size])) ++size;
    const std::string word(text_.substr(0, size));
    text_.remove_prefix(size);
    double value = 0;
    if (word.empty()) return Fail();
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0])) || word[0] == '.') {
      return absl::SimpleAtod(word, &value) ? Term{value, word} : Fail();
    }
    return {2 + UnitInterval(Mix64(0xE9, absl::AsciiStrToLower(word))), word};
  }

  std::string_view text_;
  int depth_ = 0;
  bool failed_ = false;
};

std::string_view Trimmed(std::string_view text) {
  const char* const spaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(spaces);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

bool IsVariable(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsVariableCharacter) &&
         !absl::ascii_isdigit(static_cast<unsigned char>(text[0]));
}

}  // namespace

std::optional<double> EquationValue(std::string_view text) {
  text = Trimmed(text);
  if (text.size() > kMostEquationBytes) return std::nullopt;
  const size_t equals = text.find('=');
  if (equals != text.npos) {
    const std::string_view left = Trimmed(text.substr(0, equals));
    const std::string_view right = Trimmed(text.substr(equals + 1));
    if (IsVariable(left)) return EquationValue(right);
    return IsVariable(right) ? EquationValue(left) : std::nullopt;
  }
  std::optional<Term> term;
  if (text.size() > 1 && IsOperator(text[0]) && text[1] == ' ') {
    term = ExpressionParser(text).Prefix();
  }
  if (!term.has_value()) term = ExpressionParser(text).Infix();
  return term.has_value() ? std::optional(term->value) : std::nullopt;
}

std::optional<std::string> PrefixNotation(std::string_view infix) {
  if (infix.size() > kMostEquationBytes) return std::nullopt;
  std::optional<Term> term = ExpressionParser(infix).Infix();
  return term.has_value() ? std::optional(std::move(term->prefix)) : std::nullopt;
}

bool SolvesEquation(std::string_view answer, std::string_view reference) {
  const std::optional<double> a = EquationValue(answer), b = EquationValue(reference);
  return a.has_value() && b.has_value() && std::abs(*a - *b) <= 1e-6 * std::max(1.0, std::abs(*b));
}

}  // namespace braid
