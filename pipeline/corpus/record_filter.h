// Decides which records of a corpus are kept: ingest.where, applied to the values of fields.
//
// The logic is that of SQL: a comparison with a null, or with an absent field, is neither true nor
// false; `not` does not change that; a record is kept only if the whole expression is true.
// Numbers are compared exactly, as they are stored; a NaN is not equal to, below or above anything.
// Texts are compared byte by byte.
//
//   ASSIGN_OR_RETURN(const RecordFilter filter, RecordFilter::Parse("score > 0.8"));
//   const FieldValue values[] = {0.9L};  // in the order of filter.fields()
//   if (filter.Keeps(values)) ...
#ifndef BRAID_PIPELINE_CORPUS_RECORD_FILTER_H_
#define BRAID_PIPELINE_CORPUS_RECORD_FILTER_H_

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/corpus/filter_expression.h"

namespace braid {

// The value of a field of one record; std::monostate for null.
using FieldValue = std::variant<std::monostate, bool, long double, std::string_view>;

// The known range of the values of a field in many records.
struct FieldRange {
  // Bounds of the values that are neither null nor NaN; null when they are not known.
  FieldValue lowest = {}, highest = {};
  // True if nulls are possible; true if values other than null are possible.
  bool may_be_null = true, may_be_value = true;
};

// Immutable; thread-safe.
class RecordFilter {
 public:
  // Errors: those of ParseFilterExpression.
  static absl::StatusOr<RecordFilter> Parse(std::string_view text);

  const std::vector<FilterField>& fields() const { return expression_.fields; }

  // Returns whether a record is kept. `values` has one value per field, each null or of the type of
  // the field; a field of type kAny may have any value.
  bool Keeps(std::span<const FieldValue> values) const;

  // Returns false only if no record whose values lie within `ranges`, one per field, is kept.
  bool MayKeep(std::span<const FieldRange> ranges) const;

 private:
  explicit RecordFilter(FilterExpression expression) : expression_(std::move(expression)) {}

  FilterExpression expression_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_RECORD_FILTER_H_
