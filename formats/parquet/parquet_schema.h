// The schema in a Parquet footer, which is a tree stored in depth-first order, and the columns that
// are its leaves.
#ifndef BRAID_FORMATS_PARQUET_PARQUET_SCHEMA_H_
#define BRAID_FORMATS_PARQUET_PARQUET_SCHEMA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/parquet/compact_reader.h"
#include "formats/parquet/parquet_metadata.h"

namespace braid {

// Returns INVALID_ARGUMENT "bad footer: WHAT".
absl::Status BadFooter(std::string_view what);

// The fields of a SchemaElement that readers need, unchecked.
struct ParquetSchemaElement {
  std::string name;
  int64_t type = -1;
  int64_t type_length = 0;
  int64_t repetition = 0;
  int64_t num_children = -1;
  bool is_list = false;
  bool is_decimal = false;
  bool is_unsigned = false;
};

ParquetSchemaElement ReadParquetSchemaElement(CompactReader& reader);

// Returns the leaves in the order of their columns. INVALID_ARGUMENT for elements that do not
// form a tree or have unknown types.
absl::StatusOr<std::vector<ParquetColumn>> LeavesOfParquetSchema(
    const std::vector<ParquetSchemaElement>& schema);

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_PARQUET_SCHEMA_H_
