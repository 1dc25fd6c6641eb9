// The expression language of ingest.where, with which users select records by their fields.
//
//   language_score > 0.8 and language in ("en", 'de') and not (url is null or is_spam)
//
//   expression = term { or term }            term      = factor { and factor }
//   factor     = not factor | ( expression ) | field test | field
//   test       = (= == != <> < <= > >=) literal | [not] in ( literal, ... ) | is [not] null
//   literal    = number | 'text' | "text" | true | false
//
// Keywords may have any letter case. Field names consist of letters, digits, underscores and dots,
// which lead into nested objects; others stand in `backquotes`. A quotation mark inside of a
// text is doubled. A field alone is a test for true. docs/corpus.md describes the semantics.
#ifndef BRAID_PIPELINE_CORPUS_FILTER_EXPRESSION_H_
#define BRAID_PIPELINE_CORPUS_FILTER_EXPRESSION_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// The type of a field, given by the literals with which it is compared; kAny for a field that is
// only compared with null.
enum class FieldType { kAny, kBoolean, kNumber, kText };

// Returns "a number", for messages.
const char* NameOf(FieldType type);

// A number represents every 64-bit integer and every double exactly.
using FilterLiteral = std::variant<bool, long double, std::string>;

struct FilterField {
  std::string name;
  FieldType type = FieldType::kAny;
  // The expression tests the field for null, so that records may lack it.
  bool may_be_absent = false;
};

enum class FilterOperator {
  kAnd,
  kOr,
  kNot,
  kEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kIsNull,
};

struct FilterNode {
  FilterOperator op = FilterOperator::kIsNull;
  // Indexes of the operands of kAnd, kOr and kNot (only `left`), which precede this node.
  size_t left = 0, right = 0;
  // Index of the field of a test and what it is compared with: one literal, or several of kIn.
  size_t field = 0;
  std::vector<FilterLiteral> literals = {};
};

struct FilterExpression {
  std::vector<FilterNode> nodes;  // the last one is the root
  std::vector<FilterField> fields;
};

// Parses an expression of at most 64 KiB, nested at most 100 levels. INVALID_ARGUMENT with the
// position of the error; also for a field that is compared with literals of different types, and
// for an order of booleans.
absl::StatusOr<FilterExpression> ParseFilterExpression(std::string_view text);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_FILTER_EXPRESSION_H_
