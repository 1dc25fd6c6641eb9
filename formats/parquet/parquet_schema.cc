#include "formats/parquet/parquet_schema.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr int kDeepestSchema = 100;

enum class Repetition { kRequired = 0, kOptional = 1, kRepeated = 2 };

// What an element is to the list above it. A list is a group marked as one, with a repeated group
// that is its only child, with the list's element, so that two names of a path say nothing: a list
// `tags` of texts has the path "tags.list.element". Old writers leave out the element's level.
enum class ListRole { kNone, kRepeatedGroup, kElement };

// LogicalType is a union: 3 LIST, 5 DECIMAL, 10 INTEGER{1: bit_width, 2: is_signed}.
void ReadLogicalType(CompactReader& reader, ParquetSchemaElement* element) {
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (type != CompactType::kStruct) return false;
    if (id == 3) element->is_list = true;
    if (id == 5) element->is_decimal = true;
    if (id != 10) return false;
    ReadStruct(reader, [&](int16_t inner, CompactType inner_type) {
      if (inner != 2) return false;
      element->is_unsigned = !reader.Boolean(inner_type);
      return true;
    });
    return true;
  });
}

// ConvertedType: 3 LIST, 5 DECIMAL, 11 to 14 UINT_8 to UINT_64.
void SetConvertedType(int64_t type, ParquetSchemaElement* element) {
  if (type == 3) element->is_list = true;
  if (type == 5) element->is_decimal = true;
  if (type >= 11 && type <= 14) element->is_unsigned = true;
}

// The rule of parquet-format's LogicalTypes.md: a repeated group is a level of its own unless it
// has several children or one of the names that old writers gave to elements that are groups.
ListRole RoleBelowRepeatedGroup(const ParquetSchemaElement& group) {
  const bool is_element =
      group.num_children != 1 || group.name == "array" || absl::EndsWith(group.name, "_tuple");
  return is_element ? ListRole::kNone : ListRole::kElement;
}

// Walks the tree of the schema and collects its leaves.
class LeafCollector {
 public:
  explicit LeafCollector(const std::vector<ParquetSchemaElement>& schema) : schema_(schema) {}

  absl::StatusOr<std::vector<ParquetColumn>> Collect() {
    if (schema_.empty() || schema_[0].num_children < 0) return BadFooter("the schema has no root");
    next_ = 1;
    for (int64_t i = 0; i < schema_[0].num_children; ++i) RETURN_IF_ERROR(Visit({}, 0));
    if (next_ != schema_.size()) return BadFooter("the schema has elements outside of its tree");
    return std::move(leaves_);
  }

 private:
  struct Above {
    int16_t definition = 0;
    int16_t repetition = 0;
    int16_t list_level = -1;
    ListRole role = ListRole::kNone;
  };

  absl::Status Visit(Above above, int depth) {
    if (depth > kDeepestSchema || next_ >= schema_.size()) {
      return BadFooter("the schema counts more elements than it has, or is nested too deep");
    }
    const ParquetSchemaElement& element = schema_[next_++];
    if (element.repetition < 0 || element.repetition > 2) return BadFooter("unknown repetition");
    const auto repetition = static_cast<Repetition>(element.repetition);
    if (repetition == Repetition::kRepeated) {
      above.list_level = above.definition;
      ++above.repetition;
    }
    if (repetition != Repetition::kRequired) ++above.definition;
    const bool is_named = above.role == ListRole::kNone;
    if (is_named) path_.push_back(element.name);
    if (element.num_children > 0) {
      if (above.role == ListRole::kRepeatedGroup) {
        above.role = RoleBelowRepeatedGroup(element);
      } else {
        above.role = element.is_list ? ListRole::kRepeatedGroup : ListRole::kNone;
      }
      for (int64_t i = 0; i < element.num_children; ++i) RETURN_IF_ERROR(Visit(above, depth + 1));
    } else {
      RETURN_IF_ERROR(AddLeaf(element, above));
    }
    if (is_named) path_.pop_back();
    return absl::OkStatus();
  }

  absl::Status AddLeaf(const ParquetSchemaElement& element, const Above& above) {
    if (element.type < 0 || element.type > 7) {
      return BadFooter(
          absl::StrCat("column ", element.name, " has the unknown type ", element.type));
    }
    const auto type = static_cast<ParquetType>(element.type);
    if (type == ParquetType::kFixedLengthByteArray &&
        (element.type_length <= 0 || element.type_length > (1 << 20))) {
      return BadFooter(
          absl::StrCat("column ", element.name, " has values of ", element.type_length, " bytes"));
    }
    leaves_.push_back({.name = absl::StrJoin(path_, "."),
                       .type = type,
                       .type_length = static_cast<int32_t>(element.type_length),
                       .is_unsigned = element.is_unsigned,
                       .is_decimal = element.is_decimal,
                       .max_definition_level = above.definition,
                       .max_repetition_level = above.repetition,
                       .list_level = above.list_level});
    return absl::OkStatus();
  }

  const std::vector<ParquetSchemaElement>& schema_;
  size_t next_ = 0;
  std::vector<std::string> path_;
  std::vector<ParquetColumn> leaves_;
};

}  // namespace

absl::Status BadFooter(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("bad footer: ", std::string(what)));
}

ParquetSchemaElement ReadParquetSchemaElement(CompactReader& reader) {
  ParquetSchemaElement element;
  bool has_name = false;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    switch (id) {
      case 1:
        element.type = reader.Integer(type);
        return true;
      case 2:
        element.type_length = reader.Integer(type);
        return true;
      case 3:
        element.repetition = reader.Integer(type);
        return true;
      case 4:
        element.name = std::string(reader.Binary(type));
        has_name = true;
        return true;
      case 5:
        element.num_children = reader.Integer(type);
        return true;
      case 6:
        SetConvertedType(reader.Integer(type), &element);
        return true;
      case 10:
        if (type != CompactType::kStruct) return false;
        ReadLogicalType(reader, &element);
        return true;
      default:
        return false;
    }
  });
  // It is required; otherwise each byte of a list could be an element.
  if (!has_name) reader.Fail();
  return element;
}

absl::StatusOr<std::vector<ParquetColumn>> LeavesOfParquetSchema(
    const std::vector<ParquetSchemaElement>& schema) {
  return LeafCollector(schema).Collect();
}

}  // namespace braid
