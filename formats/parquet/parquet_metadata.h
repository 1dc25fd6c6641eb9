// The footer and the page headers of a Parquet file (parquet.thrift of apache/parquet-format 2.10).
#ifndef BRAID_FORMATS_PARQUET_PARQUET_METADATA_H_
#define BRAID_FORMATS_PARQUET_PARQUET_METADATA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

enum class ParquetType {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedLengthByteArray = 7,
};

enum class ParquetCodec {
  kNone = 0,
  kSnappy = 1,
  kGzip = 2,
  kLzo = 3,
  kBrotli = 4,
  kLz4Hadoop = 5,
  kZstd = 6,
  kLz4Raw = 7,
};

enum class ParquetEncoding {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};

// A leaf of the schema.
struct ParquetColumn {
  std::string name;  // the path, joined by dots, without the ".list.element" of lists
  ParquetType type = ParquetType::kByteArray;
  int32_t type_length = 0;  // bytes of a kFixedLengthByteArray
  bool is_unsigned = false;
  bool is_decimal = false;
  int16_t max_definition_level = 0;  // optional and repeated groups above the leaf, with it
  int16_t max_repetition_level = 0;  // repeated groups above the leaf, with it
  // The definition level at which a list is not null; -1 for a column that is not a list.
  int16_t list_level = -1;
};

// Statistics that the writer stored about the values of a chunk.
struct ParquetStatistics {
  // Bounds of the values that are neither null nor NaN, in plain encoding, of a column whose order
  // the file defines; texts are ordered by their bytes and may be cut.
  std::optional<std::string> lowest, highest;
  std::optional<int64_t> num_nulls;
};

struct ParquetChunk {
  ParquetCodec codec = ParquetCodec::kNone;
  int64_t num_values = 0;
  int64_t offset = 0;  // where the first page starts, the dictionary if there is one
  int64_t size = 0;    // bytes of all pages
  bool encrypted = false;
  bool in_another_file = false;
  ParquetStatistics statistics = {};
};

struct ParquetRowGroup {
  int64_t num_rows = 0;
  std::vector<ParquetChunk> chunks;  // by column
};

struct ParquetFooter {
  std::vector<ParquetColumn> columns;
  std::vector<ParquetRowGroup> row_groups;
  int64_t num_rows = 0;
};

struct ParquetPage {
  enum class Kind { kData, kIndex, kDictionary, kDataV2 };
  Kind kind = Kind::kData;
  int64_t uncompressed_size = 0;
  int64_t compressed_size = 0;
  std::optional<uint32_t> crc;
  int64_t num_values = 0;  // with nulls
  ParquetEncoding encoding = ParquetEncoding::kPlain;
  ParquetEncoding definition_encoding = ParquetEncoding::kRle;
  ParquetEncoding repetition_encoding = ParquetEncoding::kRle;
  // Used by kDataV2 only.
  int64_t definition_size = 0;
  int64_t repetition_size = 0;
  bool is_compressed = true;
};

// Parses the FileMetaData between the pages and the file's end. INVALID_ARGUMENT with what is
// wrong; UNIMPLEMENTED for an encrypted file.
absl::StatusOr<ParquetFooter> ParseParquetFooter(std::string_view bytes);

// Parses the page header at the start of `bytes` and stores its size.
absl::StatusOr<ParquetPage> ParseParquetPage(std::string_view bytes, size_t* header_size);

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_PARQUET_METADATA_H_
