// The values of one column of a row group, row by row.
#ifndef BRAID_FORMATS_PARQUET_COLUMN_READER_H_
#define BRAID_FORMATS_PARQUET_COLUMN_READER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/parquet/parquet_metadata.h"
#include "formats/parquet/value_decoders.h"

namespace braid {

// One value of a row.
struct ParquetCell {
  bool is_null = true;
  // The value in the member for the column's type: an integer or boolean, a number, or bytes, which
  // are valid until the next row.
  int64_t integer = 0;
  double number = 0;
  std::string_view bytes;
  // The elements, if the column holds lists; NaN for a null element.
  std::vector<double> list;
};

// Returns `size` bytes of a file from `offset` on, all of which exist.
using ParquetBytes = std::function<absl::StatusOr<std::string>(int64_t offset, int64_t size)>;

// Holds one page at a time. Not thread-safe.
class ParquetColumnReader {
 public:
  // Reads a chunk that lies within the file. `bytes` must outlive the reader.
  ParquetColumnReader(const ParquetColumn& column, const ParquetChunk& chunk,
                      const ParquetBytes& bytes);

  // Limits the bytes of all text, or of all list elements, to `max_bytes`; Next() and Skip() return
  // RESOURCE_EXHAUSTED at a page that exceeds it. Without this, only single pages are limited.
  void LimitExpansion(int64_t max_bytes) { max_expanded_bytes_ = max_bytes; }

  // Reads the next row, of which there must be one. DATA_LOSS for damaged pages, UNIMPLEMENTED for
  // what is not supported; no row can be read after an error.
  absl::Status Next(ParquetCell* cell);
  // Passes over rows; the pages are read, but not their values.
  absl::Status Skip(int64_t num_rows);

 private:
  absl::Status NextPage();
  absl::StatusOr<ParquetPage> ReadHeader(std::string* bytes, size_t* header_size);
  absl::Status ReadDictionary(const ParquetPage& page, std::string_view body);
  absl::Status ReadPageV1(const ParquetPage& page, std::string_view body);
  absl::Status ReadPageV2(const ParquetPage& page, std::string_view body);
  absl::StatusOr<std::string_view> LevelsOfV1(ParquetEncoding encoding, int16_t max_level,
                                              std::string_view body, std::vector<uint32_t>* levels);
  absl::Status ReadLevels(std::string_view bytes, int16_t max_level, std::vector<uint32_t>* levels);
  absl::Status CountExpansion(int64_t bytes);
  absl::Status ReadValues(std::string_view bytes, ParquetEncoding encoding);
  absl::Status NextList(ParquetCell* cell);
  void Take(ParquetCell* cell);
  bool IsNull(size_t i) const {
    return column_.max_definition_level > 0 &&
           definitions_[i] < static_cast<uint32_t>(column_.max_definition_level);
  }

  ParquetColumn column_;
  ParquetCodec codec_;
  const ParquetBytes* bytes_;
  int64_t next_page_, end_;  // offsets in the file of the pages not yet read
  int64_t values_left_;      // on pages not yet read
  int64_t max_expanded_bytes_ = std::numeric_limits<int64_t>::max();
  int64_t expanded_bytes_ = 0;
  std::string dictionary_bytes_, page_bytes_;
  ParquetValues dictionary_;
  bool has_dictionary_ = false;
  // The current page.
  size_t num_entries_ = 0;  // values with nulls
  size_t next_entry_ = 0;
  size_t next_value_ = 0;
  std::vector<uint32_t> definitions_, repetitions_;
  ParquetValues values_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_COLUMN_READER_H_
