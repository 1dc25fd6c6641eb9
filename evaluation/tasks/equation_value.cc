#include "evaluation/tasks/equation_value.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/splitmix.h"

namespace braid {
namespace {

constexpr int kDeepest = 64;

bool IsOperator(char c) { return c == '+' || c == '-' || c == '*' || c == '/'; }
bool IsVariableCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// A recursive-descent parser. After an error `failed` is set and values have no meaning.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  std::optional<double> Infix() { return Finished(Sum()); }
  std::optional<double> Prefix() { return Finished(PrefixTerm()); }

 private:
  std::optional<double> Finished(double value) {
    if (failed_ || Next() != '\0' || !std::isfinite(value)) return std::nullopt;
    return value;
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

  double Fail() {
    failed_ = true;
    return 0;
  }

  double Sum() {
    double value = Product();
    while (!failed_ && (Next() == '+' || Next() == '-')) {
      if (Take('+')) {
        value += Product();
      } else {
        Take('-');
        value -= Product();
      }
    }
    return value;
  }

  double Product() {
    double value = Factor();
    while (!failed_ && (Next() == '*' || Next() == '/')) {
      if (Take('*')) {
        value *= Factor();
      } else {
        Take('/');
        value /= Factor();
      }
    }
    return value;
  }

  double Factor() {
    if (++depth_ > kDeepest) return Fail();
    double value = 0;
    if (Take('-')) {
      value = -Factor();
    } else if (Take('(')) {
      value = Sum();
      if (!Take(')')) Fail();
    } else {
      value = Operand();
    }
    --depth_;
    return value;
  }

  double PrefixTerm() {
    const char sign = Next();
    if (!IsOperator(sign)) return Operand();
    if (++depth_ > kDeepest) return Fail();
    Take(sign);
    const double a = PrefixTerm(), b = failed_ ? 0 : PrefixTerm();
    --depth_;
    return sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b;
  }

  // A number, or a name.
  double Operand() {
    Next();
    size_t size = 0;
    while (size < text_.size() && (IsVariableCharacter(text_[size]) || text_[size] == '.')) ++size;
    const std::string word(text_.substr(0, size));
    text_.remove_prefix(size);
    double value = 0;
    if (word.empty()) return Fail();
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0])) || word[0] == '.') {
      return absl::SimpleAtod(word, &value) ? value : Fail();
    }
    return 2 + UnitInterval(Mix64(0xE9, absl::AsciiStrToLower(word)));
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
  const size_t equals = text.find('=');
  if (equals != text.npos) {
    const std::string_view left = Trimmed(text.substr(0, equals));
    const std::string_view right = Trimmed(text.substr(equals + 1));
    if (IsVariable(left)) return EquationValue(right);
    return IsVariable(right) ? EquationValue(left) : std::nullopt;
  }
  const bool prefix = text.size() > 1 && IsOperator(text[0]) && text[1] == ' ';
  return prefix ? ExpressionParser(text).Prefix() : ExpressionParser(text).Infix();
}

bool SolvesEquation(std::string_view answer, std::string_view reference) {
  const std::optional<double> a = EquationValue(answer), b = EquationValue(reference);
  return a.has_value() && b.has_value() && std::abs(*a - *b) <= 1e-6 * std::max(1.0, std::abs(*b));
}

}  // namespace braid
