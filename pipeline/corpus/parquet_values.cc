#include "pipeline/corpus/parquet_values.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace braid {
namespace {

long double Number(const ParquetColumn& column, int64_t integer) {
  return column.is_unsigned ? static_cast<long double>(static_cast<uint64_t>(integer))
                            : static_cast<long double>(integer);
}

template <class T>
std::optional<T> PlainValue(const std::string& bytes) {
  T value;
  if (bytes.size() != sizeof(value)) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

template <class T>
FieldValue PlainNumber(const std::string& bytes) {
  const std::optional<T> value = PlainValue<T>(bytes);
  if (!value || std::isnan(static_cast<long double>(*value))) return {};
  return static_cast<long double>(*value);
}

// Returns a bound in plain encoding; null if it is malformed or not a number.
FieldValue BoundOf(const ParquetColumn& column, const std::string& bytes) {
  switch (column.type) {
    case ParquetType::kBoolean: {
      const std::optional<uint8_t> value = PlainValue<uint8_t>(bytes);
      return value && *value <= 1 ? FieldValue(*value == 1) : FieldValue();
    }
    case ParquetType::kInt32:
      return column.is_unsigned ? PlainNumber<uint32_t>(bytes) : PlainNumber<int32_t>(bytes);
    case ParquetType::kInt64:
      return column.is_unsigned ? PlainNumber<uint64_t>(bytes) : PlainNumber<int64_t>(bytes);
    case ParquetType::kFloat:
      return PlainNumber<float>(bytes);
    case ParquetType::kDouble:
      return PlainNumber<double>(bytes);
    default:
      return std::string_view(bytes);
  }
}

}  // namespace

FieldType FieldTypeOf(const ParquetColumn& column) {
  if (column.max_repetition_level > 0 || column.is_decimal) return FieldType::kAny;
  switch (column.type) {
    case ParquetType::kBoolean:
      return FieldType::kBoolean;
    case ParquetType::kInt32:
    case ParquetType::kInt64:
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return FieldType::kNumber;
    case ParquetType::kByteArray:
    case ParquetType::kFixedLengthByteArray:
      return FieldType::kText;
    case ParquetType::kInt96:
      break;
  }
  return FieldType::kAny;
}

FieldValue ValueOf(const ParquetColumn& column, const ParquetCell& cell) {
  if (cell.is_null) return {};
  switch (FieldTypeOf(column)) {
    case FieldType::kBoolean:
      return cell.integer != 0;
    case FieldType::kText:
      return cell.bytes;
    case FieldType::kAny:
      return true;
    case FieldType::kNumber:
      break;
  }
  const bool is_integer = column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64;
  return is_integer ? Number(column, cell.integer) : static_cast<long double>(cell.number);
}

FieldRange RangeOf(const ParquetColumn& column, const ParquetChunk& chunk, int64_t num_rows) {
  FieldRange range;
  // The nulls of lists and below them are counted by element.
  if (column.max_repetition_level > 0) return range;
  const ParquetStatistics& statistics = chunk.statistics;
  if (column.max_definition_level == 0) range.may_be_null = false;
  if (statistics.num_nulls) {
    if (*statistics.num_nulls == 0) range.may_be_null = false;
    if (*statistics.num_nulls == num_rows) range.may_be_value = false;
  }
  if (FieldTypeOf(column) == FieldType::kAny || !statistics.lowest || !statistics.highest) {
    return range;
  }
  range.lowest = BoundOf(column, *statistics.lowest);
  range.highest = BoundOf(column, *statistics.highest);
  return range;
}

}  // namespace braid
