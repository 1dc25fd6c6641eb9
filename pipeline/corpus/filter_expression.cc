#include "pipeline/corpus/filter_expression.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace braid {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64);

constexpr size_t kMaxBytes = size_t{64} << 10;
constexpr int kMaxDepth = 100;
constexpr size_t kShownBytes = 40;

enum class TokenKind { kEnd, kName, kQuotedName, kText, kNumber, kSymbol };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  // The unquoted text of a name or text, the characters of a number or symbol.
  std::string text;
  size_t position = 0;
};

absl::Status ErrorAt(size_t position, std::string_view got, std::string_view expected) {
  const size_t shown = Utf8PrefixLength(got, kShownBytes);
  return absl::InvalidArgumentError(
      absl::StrCat("ingest.where: at byte ", position, ": got ", std::string(got.substr(0, shown)),
                   shown < got.size() ? "..." : "", ", expected ", std::string(expected)));
}

std::string Shown(const Token& token) {
  return token.kind == TokenKind::kEnd ? "the end" : absl::StrCat("'", token.text, "'");
}

bool MayBeInName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
         (c & 0x80) != 0;
}

// Splits an expression into tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<Token> Next() {
    while (position_ < text_.size() && absl::ascii_isspace(Byte(position_))) ++position_;
    Token token{.kind = TokenKind::kEnd, .text = {}, .position = position_};
    if (position_ == text_.size()) return token;
    const char c = text_[position_];
    if (c == '"' || c == '\'' || c == '`') {
      token.kind = c == '`' ? TokenKind::kQuotedName : TokenKind::kText;
      RETURN_IF_ERROR(Quoted(c, &token.text));
    } else if (absl::ascii_isdigit(Byte(position_)) || c == '-' || c == '+' || c == '.') {
      token.kind = TokenKind::kNumber;
      token.text = std::string(NumberCharacters());
    } else if (MayBeInName(c)) {
      token.kind = TokenKind::kName;
      while (position_ < text_.size() && MayBeInName(text_[position_])) {
        token.text += text_[position_++];
      }
    } else {
      token.kind = TokenKind::kSymbol;
      const std::string_view two = text_.substr(position_, 2);
      const bool long_symbol =
          two == "==" || two == "!=" || two == "<>" || two == "<=" || two == ">=";
      token.text = std::string(text_.substr(position_, long_symbol ? 2 : 1));
      position_ += token.text.size();
    }
    return token;
  }

 private:
  unsigned char Byte(size_t i) const { return static_cast<unsigned char>(text_[i]); }

  // Reads up to the closing quotation mark; two in a row are one character of the text.
  absl::Status Quoted(char mark, std::string* out) {
    const size_t start = position_++;
    while (position_ < text_.size()) {
      const char c = text_[position_++];
      if (c != mark) {
        *out += c;
      } else if (position_ < text_.size() && text_[position_] == mark) {
        *out += text_[position_++];
      } else {
        return absl::OkStatus();
      }
    }
    return ErrorAt(start, "a quotation mark that is not closed",
                   absl::StrCat("the closing ", std::string(1, mark)));
  }

  std::string_view NumberCharacters() {
    const size_t start = position_++;
    while (position_ < text_.size()) {
      const char c = text_[position_];
      const bool sign = (c == '-' || c == '+') && absl::ascii_tolower(Byte(position_ - 1)) == 'e';
      if (!sign && !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') {
        break;
      }
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  const std::string_view text_;
  size_t position_ = 0;
};

absl::StatusOr<long double> ParseNumber(const Token& token) {
  int64_t integer = 0;
  uint64_t large_integer = 0;
  double value = 0;
  if (absl::SimpleAtoi(token.text, &integer)) return integer;
  if (absl::SimpleAtoi(token.text, &large_integer)) return large_integer;
  const bool has_digit = token.text.find_first_of("0123456789") != std::string::npos;
  const bool decimal = token.text.find_first_not_of("0123456789.+-eE") == std::string::npos;
  if (has_digit && decimal && absl::SimpleAtod(token.text, &value) && std::isfinite(value)) {
    return value;
  }
  return ErrorAt(token.position, Shown(token), "a finite decimal number, such as 12 or 0.8");
}

FieldType TypeOf(const FilterLiteral& literal) {
  constexpr FieldType kTypes[] = {FieldType::kBoolean, FieldType::kNumber, FieldType::kText};
  return kTypes[literal.index()];
}

bool IsNotEqual(const Token& token) {
  return token.kind == TokenKind::kSymbol && (token.text == "!=" || token.text == "<>");
}

// Returns the comparison that a symbol stands for, kEqual for its negation.
std::optional<FilterOperator> ComparisonOf(const Token& token) {
  const std::string& symbol = token.text;
  if (token.kind != TokenKind::kSymbol) return std::nullopt;
  if (symbol == "=" || symbol == "==" || IsNotEqual(token)) return FilterOperator::kEqual;
  if (symbol == "<") return FilterOperator::kLess;
  if (symbol == "<=") return FilterOperator::kLessEqual;
  if (symbol == ">") return FilterOperator::kGreater;
  if (symbol == ">=") return FilterOperator::kGreaterEqual;
  return std::nullopt;
}

// A parser by recursive descent; each function returns the index of the node that it added.
class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  absl::StatusOr<FilterExpression> Parse() {
    RETURN_IF_ERROR(Advance());
    RETURN_IF_ERROR(Disjunction().status());
    if (token_.kind != TokenKind::kEnd) {
      return ErrorAt(token_.position, Shown(token_), "and, or, or the end of the expression");
    }
    return std::move(result_);
  }

 private:
  absl::Status Advance() {
    ASSIGN_OR_RETURN(token_, lexer_.Next());
    return absl::OkStatus();
  }

  bool IsKeyword(std::string_view word) const {
    return token_.kind == TokenKind::kName && absl::AsciiStrToLower(token_.text) == word;
  }
  bool IsSymbol(std::string_view symbol) const {
    return token_.kind == TokenKind::kSymbol && token_.text == symbol;
  }
  // Advances past the keyword if it is the current token.
  absl::StatusOr<bool> Take(std::string_view word) {
    if (!IsKeyword(word)) return false;
    RETURN_IF_ERROR(Advance());
    return true;
  }

  size_t Add(FilterNode node) {
    result_.nodes.push_back(std::move(node));
    return result_.nodes.size() - 1;
  }
  size_t AddNotIf(bool negated, size_t operand) {
    return negated ? Add({.op = FilterOperator::kNot, .left = operand}) : operand;
  }

  absl::StatusOr<size_t> Disjunction() {
    ASSIGN_OR_RETURN(size_t left, Conjunction());
    while (IsKeyword("or")) {
      RETURN_IF_ERROR(Advance());
      ASSIGN_OR_RETURN(const size_t right, Conjunction());
      left = Add({.op = FilterOperator::kOr, .left = left, .right = right});
    }
    return left;
  }

  absl::StatusOr<size_t> Conjunction() {
    ASSIGN_OR_RETURN(size_t left, Factor());
    while (IsKeyword("and")) {
      RETURN_IF_ERROR(Advance());
      ASSIGN_OR_RETURN(const size_t right, Factor());
      left = Add({.op = FilterOperator::kAnd, .left = left, .right = right});
    }
    return left;
  }

  absl::StatusOr<size_t> Factor() {
    if (++depth_ > kMaxDepth) {
      return ErrorAt(token_.position, Shown(token_),
                     absl::StrCat("at most ", kMaxDepth, " levels of parentheses and not"));
    }
    const absl::StatusOr<size_t> node = UncountedFactor();
    --depth_;
    return node;
  }

  absl::StatusOr<size_t> UncountedFactor() {
    ASSIGN_OR_RETURN(const bool negated, Take("not"));
    if (negated) {
      ASSIGN_OR_RETURN(const size_t operand, Factor());
      return AddNotIf(true, operand);
    }
    if (!IsSymbol("(")) return Test();
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(const size_t node, Disjunction());
    if (!IsSymbol(")")) return ErrorAt(token_.position, Shown(token_), "a test, and, or, or ')'");
    RETURN_IF_ERROR(Advance());
    return node;
  }

  bool IsReserved() const {
    for (const char* word : {"and", "or", "not", "in", "is", "null", "true", "false"}) {
      if (IsKeyword(word)) return true;
    }
    return false;
  }

  absl::StatusOr<size_t> Test() {
    const bool is_name =
        token_.kind == TokenKind::kQuotedName || (token_.kind == TokenKind::kName && !IsReserved());
    if (!is_name || token_.text.empty()) {
      return ErrorAt(token_.position, Shown(token_),
                     "the name of a field, such as in language_score > 0.8 and language = 'en'");
    }
    const size_t field = FieldNamed(token_.text);
    const size_t position = token_.position;
    RETURN_IF_ERROR(Advance());
    if (IsKeyword("is")) return NullTest(field);
    ASSIGN_OR_RETURN(const bool not_in, Take("not"));
    if (not_in && !IsKeyword("in")) {
      return ErrorAt(token_.position, Shown(token_), "in after FIELD not");
    }
    if (IsKeyword("in")) return Membership(field, not_in);
    FilterNode node{.op = FilterOperator::kEqual, .field = field, .literals = {true}};
    const std::optional<FilterOperator> op = ComparisonOf(token_);
    if (!op) {
      RETURN_IF_ERROR(SetType(field, node.literals[0], position));
      return Add(std::move(node));
    }
    const bool negated = IsNotEqual(token_);
    node.op = *op;
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(node.literals[0], Literal(field));
    if (node.op != FilterOperator::kEqual && TypeOf(node.literals[0]) == FieldType::kBoolean) {
      return ErrorAt(position, "an order of booleans", "= or != with true or false");
    }
    return AddNotIf(negated, Add(std::move(node)));
  }

  absl::StatusOr<size_t> NullTest(size_t field) {
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(const bool negated, Take("not"));
    ASSIGN_OR_RETURN(const bool is_null, Take("null"));
    if (!is_null) return ErrorAt(token_.position, Shown(token_), "null after FIELD is [not]");
    result_.fields[field].may_be_absent = true;
    return AddNotIf(negated, Add({.op = FilterOperator::kIsNull, .field = field}));
  }

  absl::StatusOr<size_t> Membership(size_t field, bool negated) {
    RETURN_IF_ERROR(Advance());
    if (!IsSymbol("(")) return ErrorAt(token_.position, Shown(token_), "'(' after in");
    FilterNode node{.op = FilterOperator::kIn, .field = field};
    do {
      RETURN_IF_ERROR(Advance());
      ASSIGN_OR_RETURN(FilterLiteral literal, Literal(field));
      node.literals.push_back(std::move(literal));
    } while (IsSymbol(","));
    if (!IsSymbol(")")) return ErrorAt(token_.position, Shown(token_), "',' or ')'");
    RETURN_IF_ERROR(Advance());
    return AddNotIf(negated, Add(std::move(node)));
  }

  absl::StatusOr<FilterLiteral> Literal(size_t field) {
    const Token token = token_;
    FilterLiteral literal;
    if (token.kind == TokenKind::kNumber) {
      ASSIGN_OR_RETURN(literal, ParseNumber(token));
    } else if (token.kind == TokenKind::kText) {
      literal = token.text;
    } else if (IsKeyword("true") || IsKeyword("false")) {
      literal = IsKeyword("true");
    } else {
      return ErrorAt(token.position, Shown(token),
                     "a number, a text in quotation marks, true or false (test for null with is "
                     "null)");
    }
    RETURN_IF_ERROR(SetType(field, literal, token.position));
    RETURN_IF_ERROR(Advance());
    return literal;
  }

  size_t FieldNamed(const std::string& name) {
    for (size_t i = 0; i < result_.fields.size(); ++i) {
      if (result_.fields[i].name == name) return i;
    }
    result_.fields.push_back({.name = name});
    return result_.fields.size() - 1;
  }

  absl::Status SetType(size_t field, const FilterLiteral& literal, size_t position) {
    FilterField& known = result_.fields[field];
    const FieldType type = TypeOf(literal);
    if (known.type != FieldType::kAny && known.type != type) {
      return ErrorAt(position,
                     absl::StrCat("a comparison of '", known.name, "' with ", NameOf(type)),
                     absl::StrCat(NameOf(known.type), ", as in its comparison before"));
    }
    known.type = type;
    return absl::OkStatus();
  }

  Lexer lexer_;
  Token token_;
  FilterExpression result_;
  int depth_ = 0;
};

}  // namespace

const char* NameOf(FieldType type) {
  constexpr const char* kNames[] = {"any type", "a boolean", "a number", "a text"};
  return kNames[static_cast<size_t>(type)];
}

absl::StatusOr<FilterExpression> ParseFilterExpression(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return ErrorAt(kMaxBytes, absl::StrCat(text.size(), " bytes"),
                   absl::StrCat("at most ", kMaxBytes));
  }
  if (!IsValidUtf8(text)) return ErrorAt(0, "bytes that are not UTF-8", "UTF-8");
  return Parser(text).Parse();
}

}  // namespace braid
