// Decoding of the levels and values of a page (Encodings.md of apache/parquet-format 2.10).
//
// Every function checks its input: counts, widths, lengths and indices that do not fit are
// DATA_LOSS.
#ifndef BRAID_FORMATS_PARQUET_VALUE_DECODERS_H_
#define BRAID_FORMATS_PARQUET_VALUE_DECODERS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/parquet/parquet_metadata.h"

namespace braid {

// Returns DATA_LOSS "bad page: WHAT".
absl::Status BadPage(std::string_view what);

// The values of a page without nulls; only the vector of the column's kind is filled.
struct ParquetValues {
  std::vector<int64_t> integers;          // BOOLEAN, INT32, INT64 (unsigned ones as their bits)
  std::vector<double> numbers;            // FLOAT, DOUBLE
  std::vector<std::string_view> strings;  // byte arrays, in the page, the dictionary or `storage`
  std::vector<std::unique_ptr<std::string>> storage;  // holds values that stand nowhere as a whole

  size_t size() const { return integers.size() + numbers.size() + strings.size(); }
  void clear();
};

// Appends `count` unsigned integers of `bit_width` bits in the hybrid of runs and packed bits.
absl::Status DecodeHybrid(std::string_view bytes, int bit_width, size_t count,
                          std::vector<uint32_t>* out);

// Appends the integers of one DELTA_BINARY_PACKED block, at most `limit`, and returns the number of
// bytes that it takes. Additions wrap around, at 32 bits if `narrow`.
absl::StatusOr<size_t> DecodeDelta(std::string_view bytes, size_t limit, bool narrow,
                                   std::vector<int64_t>* out);

struct EncodedValues {
  std::string_view bytes;
  ParquetEncoding encoding = ParquetEncoding::kPlain;
  size_t count = 0;
  // The bytes that strings may have in `storage`; RESOURCE_EXHAUSTED for more, before they are
  // allocated. Other encodings store no more bytes than they read.
  int64_t max_joined_bytes = std::numeric_limits<int64_t>::max();
};

// Appends the values of a page. `dictionary` is null for a chunk without one.
absl::Status DecodeValues(const EncodedValues& encoded, const ParquetColumn& column,
                          const ParquetValues* dictionary, ParquetValues* values);

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_VALUE_DECODERS_H_
