#include "formats/parquet/parquet_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "formats/parquet/page_codec.h"
#include "formats/parquet/value_decoders.h"
#include "tests/base/crafted_files.h"

namespace braid {
namespace parquet_reader_test {

namespace fs = std::filesystem;
using nlohmann::json;

// Written by tests/peers/parquet_golden.py.
const fs::path kGolden = BRAID_GOLDEN_PARQUET;

json Golden() { return json::parse(*ReadFile(kGolden / "rows.json")); }

std::vector<fs::path> GoldenFiles() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kGolden)) {
    if (entry.path().extension() == ".parquet") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

json CellJson(const ParquetColumn& column, const ParquetCell& cell) {
  if (cell.is_null) return nullptr;
  if (column.max_repetition_level > 0) return cell.list;
  switch (column.type) {
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return cell.number;
    case ParquetType::kByteArray:
    case ParquetType::kFixedLengthByteArray:
      return std::string(cell.bytes);
    case ParquetType::kBoolean:
      return cell.integer != 0;
    default:
      return cell.integer;
  }
}

absl::StatusOr<json> NextRow(ParquetReader& reader, size_t num_columns) {
  if (const absl::Status status = reader.Next(); !status.ok()) return status;
  json row = json::array();
  for (size_t i = 0; i < num_columns; ++i) {
    row.push_back(CellJson(reader.selected(i), reader.cell(i)));
  }
  return row;
}

ParquetBytes InMemory(const std::string& bytes) {
  return [&bytes](int64_t offset, int64_t size) -> absl::StatusOr<std::string> {
    return bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
  };
}

// Reads all rows; returns how many could be read. Neither may crash nor allocate without limit.
int64_t ReadAll(const std::string& bytes, const std::vector<std::string>& columns) {
  auto reader = ParquetReader::FromBytes(InMemory(bytes), static_cast<int64_t>(bytes.size()), "x");
  if (!reader.ok() || !reader->Select(columns).ok()) return 0;
  while (reader->row() < reader->num_rows()) {
    if (!reader->Next().ok()) break;
  }
  return reader->row();
}

TEST(ParquetReaderTest, ReadsEveryCodecEncodingAndPageVersion) {
  const json golden = Golden();
  const std::vector<std::string> columns = golden["columns"];
  ASSERT_EQ(GoldenFiles().size(), 16u);
  for (const fs::path& path : GoldenFiles()) {
    auto reader = ParquetReader::Open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_TRUE(reader->Select(columns).ok()) << path;
    ASSERT_EQ(reader->num_rows(), static_cast<int64_t>(golden["rows"].size()));
    for (const json& expected : golden["rows"]) {
      const auto row = NextRow(*reader, columns.size());
      ASSERT_TRUE(row.ok()) << row.status();
      ASSERT_EQ(*row, expected) << path << " before row " << reader->row();
    }
  }
}

TEST(ParquetReaderTest, ContinuesAtAnyRow) {
  const json golden = Golden();
  const std::vector<std::string> columns = golden["columns"];
  for (const char* name : {"zstd-1.parquet", "encodings-2.parquet"}) {
    auto reader = ParquetReader::Open(kGolden / name);
    ASSERT_TRUE(reader.ok() && reader->Select(columns).ok());
    for (int64_t row = reader->num_rows(); row >= 0; --row) {
      ASSERT_TRUE(reader->Seek(row).ok());
      ASSERT_EQ(reader->row(), row);
      if (row == reader->num_rows()) continue;
      ASSERT_EQ(*NextRow(*reader, columns.size()), golden["rows"][static_cast<size_t>(row)]);
    }
  }
}

TEST(ParquetReaderTest, NamesColumnsThatCannotBeRead) {
  auto reader = ParquetReader::Open(kGolden / "none-1.parquet");
  ASSERT_TRUE(reader.ok());
  const absl::Status unknown = reader->Select({"txet"});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(unknown.message()).find("did you mean \"text\""), std::string::npos)
      << unknown;
}

TEST(ParquetReaderTest, RefusesFilesOfOtherKinds) {
  const auto open = [](const std::string& bytes) {
    return ParquetReader::FromBytes(InMemory(bytes), static_cast<int64_t>(bytes.size()), "f")
        .status();
  };
  EXPECT_EQ(open("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(std::string(100, 'a')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open("PAR1" + std::string(100, 'a')).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(open("PARE" + std::string(100, 'a') + "PARE").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(open("PAR1" + std::string(100, '\xFF') + "PAR1").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ParquetReader::Open("/dev/null").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParquetReaderTest, SurvivesCutFiles) {
  const std::vector<std::string> columns = Golden()["columns"];
  const std::string bytes = *ReadFile(kGolden / "snappy-1.parquet");
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(ReadAll(bytes.substr(0, size), columns), 0) << size;
  }
}

// Pages with checksums give the right rows or an error, never others.
TEST(ParquetReaderTest, FindsDamagedPages) {
  const json golden = Golden();
  const std::string bytes = *ReadFile(kGolden / "zstd-2.parquet");
  int damaged = 0;
  for (size_t i = 4; i < bytes.size(); i += 5) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    auto reader =
        ParquetReader::FromBytes(InMemory(changed), static_cast<int64_t>(changed.size()), "x");
    if (!reader.ok() || !reader->Select({"text"}).ok()) continue;
    if (reader->num_rows() != static_cast<int64_t>(golden["rows"].size())) continue;
    while (reader->row() < reader->num_rows()) {
      const auto row = static_cast<size_t>(reader->row());
      const auto cells = NextRow(*reader, 1);
      if (!cells.ok()) {
        ++damaged;
        break;
      }
      ASSERT_EQ((*cells)[0], golden["rows"][row][0]) << "byte " << i;
    }
  }
  EXPECT_GT(damaged, 20);
}

TEST(PageCodecTest, ExpandsToTheStatedSizeOnly) {
  std::string out;
  EXPECT_TRUE(DecompressPage(ParquetCodec::kNone, "abc", 3, &out).ok());
  EXPECT_EQ(out, "abc");
  for (const ParquetCodec codec :
       {ParquetCodec::kSnappy, ParquetCodec::kGzip, ParquetCodec::kBrotli, ParquetCodec::kZstd,
        ParquetCodec::kLz4Raw}) {
    EXPECT_EQ(DecompressPage(codec, "abc", 100, &out).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(DecompressPage(codec, "", 100, &out).code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecompressPage(ParquetCodec::kLzo, "", 0, &out).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(DecompressPage(ParquetCodec::kLz4Hadoop, "", 0, &out).code(),
            absl::StatusCode::kUnimplemented);
}

TEST(PageCodecTest, JoinsGzipMembers) {
  std::string out = "before ";
  const std::string members = Gzip("first ") + Gzip("") + Gzip("second");
  EXPECT_TRUE(DecompressPage(ParquetCodec::kGzip, members, 12, &out).ok());
  EXPECT_EQ(out, "before first second");
  EXPECT_FALSE(DecompressPage(ParquetCodec::kGzip, members, 13, &out).ok());
  std::string damaged = members;
  damaged[damaged.size() - 8] ^= 1;  // the checksum of the last member
  EXPECT_FALSE(DecompressPage(ParquetCodec::kGzip, damaged, 12, &out).ok());
}

TEST(ValueDecodersTest, RefusesLengthsThatLie) {
  std::vector<uint32_t> levels;
  // A run of 2^60 ones for 5 values, packed bits without bytes, a run of nothing.
  EXPECT_TRUE(DecodeHybrid("\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x1F\x01", 1, 5, &levels).ok());
  EXPECT_EQ(levels, std::vector<uint32_t>(5, 1));
  EXPECT_FALSE(DecodeHybrid("\x03", 8, 5, &levels).ok());
  EXPECT_FALSE(DecodeHybrid(std::string_view("\0", 1), 0, 5, &levels).ok());
  EXPECT_FALSE(DecodeHybrid("\x02\x01", 40, 1, &levels).ok());
  std::vector<int64_t> values;
  // 128 values in 4 miniblocks are stated, at most 10 expected.
  EXPECT_FALSE(
      DecodeDelta(std::string_view("\x80\x01\x04\x80\x01\x00", 6), 10, false, &values).ok());
  EXPECT_FALSE(DecodeDelta(std::string_view("\x80\x01\x00\x01\x00", 5), 10, false, &values).ok());
}

TEST(ValueDecodersTest, RefusesIndicesBeyondTheDictionary) {
  const ParquetColumn column{.name = "c", .type = ParquetType::kByteArray};
  ParquetValues dictionary, values;
  dictionary.strings = {"a", "b", "c"};
  const auto decode = [&](std::string_view page) {
    values.clear();
    return DecodeValues({page, ParquetEncoding::kRleDictionary, 2}, column, &dictionary, &values);
  };
  // Indices of 2 bits, a run of two.
  ASSERT_TRUE(decode("\x02\x04\x02").ok());
  EXPECT_EQ(values.strings, std::vector<std::string_view>(2, "c"));
  const absl::Status status = decode("\x02\x04\x03");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "bad page: index 3 of a dictionary of 3");
  dictionary.strings.clear();
  EXPECT_EQ(decode(std::string_view("\x02\x04\x00", 3)).code(), absl::StatusCode::kDataLoss);
}

// Four strings in DELTA_BYTE_ARRAY: eight letters, then three times these eight.
TEST(ValueDecodersTest, LimitsTheBytesOfJoinedStringsBeforeTheyAreAllocated) {
  const std::string head("\x80\x01\x04\x04", 4), zeros(16, '\0');
  const std::string prefixes = head + std::string("\0\0\x04\0\0\0\x08", 7) + zeros.substr(1);
  const std::string lengths = head + std::string("\x10\x0F\x04\0\0\0\x80\x08", 8) + zeros.substr(2);
  const std::string page = prefixes + lengths + "abcdefgh";
  const ParquetColumn column{.name = "c", .type = ParquetType::kByteArray};
  ParquetValues values;
  const auto decode = [&](int64_t max_bytes) {
    values.clear();
    return DecodeValues({page, ParquetEncoding::kDeltaByteArray, 4, max_bytes}, column, nullptr,
                        &values);
  };
  ASSERT_TRUE(decode(24).ok()) << decode(24);
  EXPECT_EQ(values.strings, std::vector<std::string_view>(4, "abcdefgh"));
  EXPECT_EQ(decode(23).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(values.storage.empty());
}

}  // namespace parquet_reader_test
}  // namespace braid
