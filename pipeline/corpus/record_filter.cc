#include "pipeline/corpus/record_filter.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// A set of truth values of Kleene's logic, as a bit mask. The values of one record give sets of one
// element; ranges of values give all that are possible.
using Truths = uint8_t;
constexpr Truths kFalse = 1, kUnknown = 2, kTrue = 4;

// Returns the set of combine(a, b) over all elements, which are numbered 0 false, 1 unknown, 2
// true.
template <class Function>
Truths ForAllPairs(Truths a, Truths b, const Function& combine) {
  Truths result = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      if ((a >> i & 1) != 0 && (b >> j & 1) != 0) {
        result = static_cast<Truths>(result | 1 << combine(i, j));
      }
    }
  }
  return result;
}

Truths Not(Truths a) {
  return ForAllPairs(a, kTrue, [](int i, int) { return 2 - i; });
}

Truths OneOf(bool may_be_true, bool may_be_false) {
  return static_cast<Truths>((may_be_true ? kTrue : 0) | (may_be_false ? kFalse : 0));
}

std::partial_ordering Compare(const FieldValue& value, const FilterLiteral& literal) {
  if (const auto* text = std::get_if<std::string>(&literal)) {
    return std::get<std::string_view>(value) <=> std::string_view(*text);
  }
  if (const auto* number = std::get_if<long double>(&literal)) {
    return std::get<long double>(value) <=> *number;
  }
  return std::get<bool>(value) <=> std::get<bool>(literal);
}

// Returns the possible results of a test for values in [low, high], both known.
Truths Within(const FilterNode& node, const FieldValue& low, const FieldValue& high) {
  bool any = false, all = false;  // whether a value can be equal to a literal, or must be
  for (const FilterLiteral& literal : node.literals) {
    const auto from = Compare(low, literal), to = Compare(high, literal);
    any = any || (from <= 0 && to >= 0);
    all = all || (from == 0 && to == 0);
  }
  const auto from = Compare(low, node.literals[0]), to = Compare(high, node.literals[0]);
  switch (node.op) {
    case FilterOperator::kEqual:
    case FilterOperator::kIn:
      return OneOf(any, !all);
    case FilterOperator::kLess:
      return OneOf(from < 0, to >= 0);
    case FilterOperator::kLessEqual:
      return OneOf(from <= 0, to > 0);
    case FilterOperator::kGreater:
      return OneOf(to > 0, from <= 0);
    default:
      BRAID_CHECK(node.op == FilterOperator::kGreaterEqual);
      return OneOf(to >= 0, from < 0);
  }
}

bool IsNull(const FieldValue& value) { return std::holds_alternative<std::monostate>(value); }

bool IsNan(const FieldValue& value) {
  const auto* number = std::get_if<long double>(&value);
  return number != nullptr && std::isnan(*number);
}

Truths TestValue(const FilterNode& node, const FieldValue& value) {
  if (node.op == FilterOperator::kIsNull) return IsNull(value) ? kTrue : kFalse;
  if (IsNull(value)) return kUnknown;
  return IsNan(value) ? kFalse : Within(node, value, value);
}

Truths TestRange(const FilterNode& node, const FilterField& field, const FieldRange& range) {
  if (node.op == FilterOperator::kIsNull) return OneOf(range.may_be_null, range.may_be_value);
  Truths result = range.may_be_null ? kUnknown : 0;
  if (!range.may_be_value) return result;
  const bool known = !IsNull(range.lowest) && !IsNull(range.highest);
  result |= known ? Within(node, range.lowest, range.highest) : OneOf(true, true);
  // Bounds do not count NaN, for which every test is false.
  if (field.type == FieldType::kNumber) result |= kFalse;
  return result;
}

// Evaluates all nodes, operands first; `test` evaluates one test of a field.
template <class Function>
Truths Evaluate(const FilterExpression& expression, const Function& test) {
  absl::InlinedVector<Truths, 32> truths;
  for (const FilterNode& node : expression.nodes) {
    switch (node.op) {
      case FilterOperator::kAnd:
        truths.push_back(ForAllPairs(truths[node.left], truths[node.right],
                                     [](int i, int j) { return std::min(i, j); }));
        break;
      case FilterOperator::kOr:
        truths.push_back(ForAllPairs(truths[node.left], truths[node.right],
                                     [](int i, int j) { return std::max(i, j); }));
        break;
      case FilterOperator::kNot:
        truths.push_back(Not(truths[node.left]));
        break;
      default:
        truths.push_back(test(node));
    }
  }
  return truths.back();
}

}  // namespace

absl::StatusOr<RecordFilter> RecordFilter::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(FilterExpression expression, ParseFilterExpression(text));
  return RecordFilter(std::move(expression));
}

bool RecordFilter::Keeps(std::span<const FieldValue> values) const {
  BRAID_CHECK(values.size() == fields().size()) << values.size();
  const auto test = [&](const FilterNode& node) { return TestValue(node, values[node.field]); };
  return Evaluate(expression_, test) == kTrue;
}

bool RecordFilter::MayKeep(std::span<const FieldRange> ranges) const {
  BRAID_CHECK(ranges.size() == fields().size()) << ranges.size();
  const auto test = [&](const FilterNode& node) {
    return TestRange(node, fields()[node.field], ranges[node.field]);
  };
  return (Evaluate(expression_, test) & kTrue) != 0;
}

}  // namespace braid
