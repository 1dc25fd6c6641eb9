// A Parquet file, of which all columns that can be read are read.
#include "base/atomic_file.h"
#include "base/check.h"
#include "formats/parquet/parquet_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(parquet)() {
  std::vector<std::string> seeds;
  for (const char* name : {"none-1.parquet", "none-2.parquet", "encodings-1.parquet",
                           "encodings-2.parquet", "../bombs/prefixes.parquet"}) {
    seeds.push_back(*ReadFile(std::filesystem::path(BRAID_GOLDEN_PARQUET) / name));
  }
  return seeds;
}

}  // namespace braid

int FUZZ_INPUT(parquet)(const uint8_t* data, size_t size) {
  const std::string_view file = braid::AsText(data, size);
  const braid::ParquetBytes bytes = [file](int64_t offset,
                                           int64_t count) -> absl::StatusOr<std::string> {
    BRAID_CHECK(offset >= 0 && count >= 0 && offset + count <= static_cast<int64_t>(file.size()))
        << offset << " " << count;
    return std::string(file.substr(static_cast<size_t>(offset), static_cast<size_t>(count)));
  };
  auto reader = braid::ParquetReader::FromBytes(bytes, static_cast<int64_t>(size), "fuzz");
  if (!reader.ok()) return 0;
  std::vector<std::string> selected;
  for (const braid::ParquetColumn& column : reader->columns()) {
    if (reader->Select({column.name}).ok()) selected.push_back(column.name);
  }
  BRAID_CHECK(reader->Select(selected).ok());
  // Columns of nothing but nulls may have any number of rows.
  for (int rows = 0; rows < 1000 && reader->row() < reader->num_rows(); ++rows) {
    if (!reader->Next().ok()) break;
  }
  return 0;
}
