#include "formats/parquet/parquet_metadata.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "formats/parquet/compact_reader.h"

namespace braid {
namespace {

constexpr int kDeepestSchema = 100;

enum class Repetition { kRequired = 0, kOptional = 1, kRepeated = 2 };

// One element of the schema, which is a tree in depth-first order.
struct SchemaElement {
  std::string name;
  int64_t type = -1;
  int64_t type_length = 0;
  int64_t repetition = 0;
  int64_t num_children = -1;
  int64_t converted_type = -1;
  bool is_unsigned = false;
};

absl::Status Bad(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("bad footer: ", std::string(what)));
}

// LogicalType is a union: 5 DECIMAL, 10 INTEGER{1: bit_width, 2: is_signed}.
void ReadLogicalType(CompactReader& reader, SchemaElement* element) {
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (type != CompactType::kStruct) return false;
    if (id == 5) element->converted_type = 5;
    if (id != 10) return false;
    ReadStruct(reader, [&](int16_t inner, CompactType inner_type) {
      if (inner != 2) return false;
      element->is_unsigned = !reader.Boolean(inner_type);
      return true;
    });
    return true;
  });
}

SchemaElement ReadSchemaElement(CompactReader& reader) {
  SchemaElement element;
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
        return true;
      case 5:
        element.num_children = reader.Integer(type);
        return true;
      case 6:
        element.converted_type = reader.Integer(type);
        return true;
      case 10:
        if (type != CompactType::kStruct) return false;
        ReadLogicalType(reader, &element);
        return true;
      default:
        return false;
    }
  });
  // UINT_8 to UINT_64.
  if (element.converted_type >= 11 && element.converted_type <= 14) element.is_unsigned = true;
  return element;
}

struct ChunkMetadata {
  ParquetChunk chunk;
  int64_t type = -1;
  int64_t dictionary_offset = 0;
  bool complete = false;
};

// The deprecated bounds, fields 1 and 2, have no defined order.
void ReadStatistics(CompactReader& reader, ParquetStatistics* statistics) {
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    switch (id) {
      case 3:
        statistics->num_nulls = reader.Integer(type);
        return true;
      case 5:
        statistics->highest = std::string(reader.Binary(type));
        return true;
      case 6:
        statistics->lowest = std::string(reader.Binary(type));
        return true;
      default:
        return false;
    }
  });
}

void ReadColumnMetadata(CompactReader& reader, ChunkMetadata* result) {
  result->complete = true;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    switch (id) {
      case 1:
        result->type = reader.Integer(type);
        return true;
      case 4:
        result->chunk.codec = static_cast<ParquetCodec>(reader.Integer(type));
        return true;
      case 5:
        result->chunk.num_values = reader.Integer(type);
        return true;
      case 7:
        result->chunk.size = reader.Integer(type);
        return true;
      case 9:
        result->chunk.offset = reader.Integer(type);
        return true;
      case 11:
        result->dictionary_offset = reader.Integer(type);
        return true;
      case 12:
        if (type != CompactType::kStruct) return false;
        ReadStatistics(reader, &result->chunk.statistics);
        return true;
      default:
        return false;
    }
  });
  // Some writers store 0 for a chunk without a dictionary.
  if (result->dictionary_offset > 0 && result->dictionary_offset < result->chunk.offset) {
    result->chunk.offset = result->dictionary_offset;
  }
}

ChunkMetadata ReadChunk(CompactReader& reader) {
  ChunkMetadata result;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (id == 1) {
      result.chunk.in_another_file = !reader.Binary(type).empty();
    } else if (id == 3 && type == CompactType::kStruct) {
      ReadColumnMetadata(reader, &result);
    } else {
      if (id == 8 || id == 9) result.chunk.encrypted = true;
      return false;
    }
    return true;
  });
  return result;
}

struct RowGroupMetadata {
  int64_t num_rows = 0;
  std::vector<ChunkMetadata> chunks;
};

RowGroupMetadata ReadRowGroup(CompactReader& reader) {
  RowGroupMetadata group;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (id == 3) {
      group.num_rows = reader.Integer(type);
    } else if (id == 1) {
      const size_t n = reader.ListOf(type, CompactType::kStruct);
      for (size_t i = 0; i < n && reader.ok(); ++i) group.chunks.push_back(ReadChunk(reader));
    } else {
      return false;
    }
    return true;
  });
  return group;
}

// Walks the tree of the schema and collects its leaves.
class LeafCollector {
 public:
  explicit LeafCollector(const std::vector<SchemaElement>& schema) : schema_(schema) {}

  absl::StatusOr<std::vector<ParquetColumn>> Collect() {
    if (schema_.empty() || schema_[0].num_children < 0) return Bad("the schema has no root");
    next_ = 1;
    for (int64_t i = 0; i < schema_[0].num_children; ++i) RETURN_IF_ERROR(Visit({}, 0));
    if (next_ != schema_.size()) return Bad("the schema has elements outside of its tree");
    return std::move(leaves_);
  }

 private:
  struct Above {
    int16_t definition = 0;
    int16_t repetition = 0;
    int16_t list_level = -1;
  };

  absl::Status Visit(Above above, int depth) {
    if (depth > kDeepestSchema || next_ >= schema_.size()) {
      return Bad("the schema counts more elements than it has, or is nested too deep");
    }
    const SchemaElement& element = schema_[next_++];
    if (element.repetition < 0 || element.repetition > 2) return Bad("unknown repetition");
    const auto repetition = static_cast<Repetition>(element.repetition);
    if (repetition == Repetition::kRepeated) {
      above.list_level = above.definition;
      ++above.repetition;
    }
    if (repetition != Repetition::kRequired) ++above.definition;
    path_.push_back(element.name);
    if (element.num_children > 0) {
      for (int64_t i = 0; i < element.num_children; ++i) RETURN_IF_ERROR(Visit(above, depth + 1));
    } else {
      RETURN_IF_ERROR(AddLeaf(element, above));
    }
    path_.pop_back();
    return absl::OkStatus();
  }

  absl::Status AddLeaf(const SchemaElement& element, const Above& above) {
    if (element.type < 0 || element.type > 7) {
      return Bad(absl::StrCat("column ", element.name, " has the unknown type ", element.type));
    }
    const auto type = static_cast<ParquetType>(element.type);
    if (type == ParquetType::kFixedLengthByteArray &&
        (element.type_length <= 0 || element.type_length > (1 << 20))) {
      return Bad(
          absl::StrCat("column ", element.name, " has values of ", element.type_length, " bytes"));
    }
    std::vector<std::string> path = path_;
    // Lists have two levels of their own: "list.element" by the standard, other names by others.
    if (above.repetition == 1 && path.size() > 2) path.resize(path.size() - 2);
    leaves_.push_back({.name = absl::StrJoin(path, "."),
                       .type = type,
                       .type_length = static_cast<int32_t>(element.type_length),
                       .is_unsigned = element.is_unsigned,
                       .is_decimal = element.converted_type == 5,
                       .max_definition_level = above.definition,
                       .max_repetition_level = above.repetition,
                       .list_level = above.list_level});
    return absl::OkStatus();
  }

  const std::vector<SchemaElement>& schema_;
  size_t next_ = 0;
  std::vector<std::string> path_;
  std::vector<ParquetColumn> leaves_;
};

absl::StatusOr<ParquetRowGroup> CheckRowGroup(RowGroupMetadata group,
                                              const std::vector<ParquetColumn>& columns) {
  if (group.num_rows < 0 || group.chunks.size() != columns.size()) {
    return Bad(absl::StrCat("a row group has ", group.chunks.size(), " columns and ",
                            group.num_rows, " rows, the schema ", columns.size(), " columns"));
  }
  ParquetRowGroup result{.num_rows = group.num_rows, .chunks = {}};
  for (size_t c = 0; c < columns.size(); ++c) {
    const ChunkMetadata& metadata = group.chunks[c];
    const ParquetChunk& chunk = metadata.chunk;
    const bool flat = columns[c].max_repetition_level == 0;
    const bool sound = metadata.type == static_cast<int64_t>(columns[c].type) &&
                       chunk.num_values >= 0 && chunk.offset >= 0 && chunk.size >= 0 &&
                       (!flat || chunk.num_values == group.num_rows);
    if (metadata.complete && !sound) {
      return Bad(absl::StrCat("column ", columns[c].name, " does not fit its row group"));
    }
    result.chunks.push_back(chunk);
    if (!metadata.complete) result.chunks.back().encrypted = true;
  }
  return result;
}

void ReadDataPage(CompactReader& reader, ParquetPage* page) {
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    switch (id) {
      case 1:
        page->num_values = reader.Integer(type);
        return true;
      case 2:
        page->encoding = static_cast<ParquetEncoding>(reader.Integer(type));
        return true;
      case 3:
        page->definition_encoding = static_cast<ParquetEncoding>(reader.Integer(type));
        return true;
      case 4:
        page->repetition_encoding = static_cast<ParquetEncoding>(reader.Integer(type));
        return true;
      default:
        return false;
    }
  });
}

// Its values are plain, whatever its encoding says.
void ReadDictionaryPage(CompactReader& reader, ParquetPage* page) {
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (id == 1) page->num_values = reader.Integer(type);
    return id == 1;
  });
}

void ReadDataPageV2(CompactReader& reader, ParquetPage* page) {
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    switch (id) {
      case 1:
        page->num_values = reader.Integer(type);
        return true;
      case 4:
        page->encoding = static_cast<ParquetEncoding>(reader.Integer(type));
        return true;
      case 5:
        page->definition_size = reader.Integer(type);
        return true;
      case 6:
        page->repetition_size = reader.Integer(type);
        return true;
      case 7:
        page->is_compressed = reader.Boolean(type);
        return true;
      default:
        return false;
    }
  });
}

// Returns for each column whether its bounds have the order of its type: ColumnOrder is a union of
// which TYPE_ORDER is field 1.
std::vector<bool> ReadColumnOrders(CompactReader& reader, CompactType type) {
  const size_t n = reader.ListOf(type, CompactType::kStruct);
  std::vector<bool> ordered;
  for (size_t i = 0; i < n && reader.ok(); ++i) {
    bool by_type = false;
    ReadStruct(reader, [&](int16_t id, CompactType) {
      by_type = by_type || id == 1;
      return false;
    });
    ordered.push_back(by_type);
  }
  return ordered;
}

// Drops bounds without a defined order.
void DropUnordered(const std::vector<bool>& ordered, std::vector<ParquetRowGroup>* groups) {
  for (ParquetRowGroup& group : *groups) {
    for (size_t c = 0; c < group.chunks.size(); ++c) {
      if (c < ordered.size() && ordered[c]) continue;
      group.chunks[c].statistics.lowest.reset();
      group.chunks[c].statistics.highest.reset();
    }
  }
}

}  // namespace

absl::StatusOr<ParquetFooter> ParseParquetFooter(std::string_view bytes) {
  CompactReader reader(bytes);
  ParquetFooter footer;
  std::vector<SchemaElement> schema;
  std::vector<RowGroupMetadata> groups;
  std::vector<bool> ordered;
  bool encrypted = false;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (id == 2) {
      const size_t n = reader.ListOf(type, CompactType::kStruct);
      for (size_t i = 0; i < n && reader.ok(); ++i) schema.push_back(ReadSchemaElement(reader));
    } else if (id == 3) {
      footer.num_rows = reader.Integer(type);
    } else if (id == 4) {
      const size_t n = reader.ListOf(type, CompactType::kStruct);
      for (size_t i = 0; i < n && reader.ok(); ++i) groups.push_back(ReadRowGroup(reader));
    } else if (id == 7) {
      ordered = ReadColumnOrders(reader, type);
    } else {
      if (id == 8) encrypted = true;
      return false;
    }
    return true;
  });
  if (!reader.ok()) return Bad("it is not a FileMetaData in Thrift's compact protocol");
  if (encrypted) return absl::UnimplementedError("the file is encrypted");
  ASSIGN_OR_RETURN(footer.columns, LeafCollector(schema).Collect());
  int64_t num_rows = 0;
  for (RowGroupMetadata& group : groups) {
    ASSIGN_OR_RETURN(ParquetRowGroup checked, CheckRowGroup(std::move(group), footer.columns));
    if (checked.num_rows > footer.num_rows - num_rows) break;
    num_rows += checked.num_rows;
    footer.row_groups.push_back(std::move(checked));
  }
  DropUnordered(ordered, &footer.row_groups);
  if (num_rows == footer.num_rows && footer.row_groups.size() == groups.size()) return footer;
  return Bad(absl::StrCat("its row groups do not have its ", footer.num_rows, " rows"));
}

absl::StatusOr<ParquetPage> ParseParquetPage(std::string_view bytes, size_t* header_size) {
  CompactReader reader(bytes);
  ParquetPage page;
  int64_t kind = -1;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    const bool is_struct = type == CompactType::kStruct;
    if (id == 1) {
      kind = reader.Integer(type);
    } else if (id == 2) {
      page.uncompressed_size = reader.Integer(type);
    } else if (id == 3) {
      page.compressed_size = reader.Integer(type);
    } else if (id == 4) {
      page.crc = static_cast<uint32_t>(reader.Integer(type));
    } else if (id == 5 && is_struct) {
      ReadDataPage(reader, &page);
    } else if (id == 7 && is_struct) {
      ReadDictionaryPage(reader, &page);
    } else if (id == 8 && is_struct) {
      ReadDataPageV2(reader, &page);
    } else {
      return false;
    }
    return true;
  });
  if (!reader.ok() || kind < 0 || kind > 3 || page.uncompressed_size < 0 ||
      page.compressed_size < 0 || page.num_values < 0 || page.definition_size < 0 ||
      page.repetition_size < 0) {
    return absl::DataLossError("bad page header");
  }
  page.kind = static_cast<ParquetPage::Kind>(kind);
  *header_size = reader.position();
  return page;
}

}  // namespace braid
