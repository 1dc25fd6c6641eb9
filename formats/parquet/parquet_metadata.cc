#include "formats/parquet/parquet_metadata.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/parquet/compact_reader.h"
#include "formats/parquet/parquet_schema.h"

namespace braid {
namespace {

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

// Fails without any field: an empty structure of one byte would take 160 in memory.
ChunkMetadata ReadChunk(CompactReader& reader) {
  ChunkMetadata result;
  bool has_fields = false;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    has_fields = true;
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
  if (!has_fields) reader.Fail();
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

absl::StatusOr<ParquetRowGroup> CheckRowGroup(RowGroupMetadata group,
                                              const std::vector<ParquetColumn>& columns) {
  if (group.num_rows < 0 || group.chunks.size() != columns.size()) {
    return BadFooter(absl::StrCat("a row group has ", group.chunks.size(), " columns and ",
                                  group.num_rows, " rows, the schema ", columns.size(),
                                  " columns"));
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
      return BadFooter(absl::StrCat("column ", columns[c].name, " does not fit its row group"));
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

// The format has 32 bits for a size, so that sums of sizes do not overflow.
bool IsInt32Size(int64_t size) { return size >= 0 && size <= std::numeric_limits<int32_t>::max(); }

}  // namespace

absl::StatusOr<ParquetFooter> ParseParquetFooter(std::string_view bytes) {
  CompactReader reader(bytes);
  ParquetFooter footer;
  std::vector<ParquetSchemaElement> schema;
  std::vector<RowGroupMetadata> groups;
  std::vector<bool> ordered;
  bool encrypted = false;
  ReadStruct(reader, [&](int16_t id, CompactType type) {
    if (id == 2) {
      const size_t n = reader.ListOf(type, CompactType::kStruct);
      for (size_t i = 0; i < n && reader.ok(); ++i)
        schema.push_back(ReadParquetSchemaElement(reader));
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
  if (!reader.ok()) return BadFooter("it is not a FileMetaData in Thrift's compact protocol");
  if (encrypted) return absl::UnimplementedError("the file is encrypted");
  ASSIGN_OR_RETURN(footer.columns, LeavesOfParquetSchema(schema));
  int64_t num_rows = 0;
  for (RowGroupMetadata& group : groups) {
    ASSIGN_OR_RETURN(ParquetRowGroup checked, CheckRowGroup(std::move(group), footer.columns));
    if (checked.num_rows > footer.num_rows - num_rows) break;
    num_rows += checked.num_rows;
    footer.row_groups.push_back(std::move(checked));
  }
  DropUnordered(ordered, &footer.row_groups);
  if (num_rows == footer.num_rows && footer.row_groups.size() == groups.size()) return footer;
  return BadFooter(absl::StrCat("its row groups do not have its ", footer.num_rows, " rows"));
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
      page.compressed_size < 0 || page.num_values < 0 || !IsInt32Size(page.definition_size) ||
      !IsInt32Size(page.repetition_size)) {
    return absl::DataLossError("bad page header");
  }
  page.kind = static_cast<ParquetPage::Kind>(kind);
  *header_size = reader.position();
  return page;
}

}  // namespace braid
