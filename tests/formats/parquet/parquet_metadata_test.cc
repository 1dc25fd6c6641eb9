// Footers that writers do not make, or that Python's libraries cannot write.
#include "formats/parquet/parquet_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/parquet/parquet_reader.h"

namespace braid {
namespace parquet_metadata_test {

using testing::ElementsAre;

// Values of Thrift's compact protocol. `step` is how far a field's id is beyond that of the field
// before it in the structure.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
  return bytes + static_cast<char>(value);
}
std::string Integer(int step, uint64_t value) {
  return static_cast<char>(step << 4 | 5) + Varint(value << 1);
}
std::string Text(int step, const std::string& text) {
  return static_cast<char>(step << 4 | 8) + Varint(text.size()) + text;
}
std::string Struct(int step, const std::string& fields) {
  return static_cast<char>(step << 4 | 12) + fields + '\0';
}
std::string Structs(int step, const std::vector<std::string>& elements) {
  std::string bytes = static_cast<char>(step << 4 | 9) + ('\xFC' + Varint(elements.size()));
  for (const std::string& element : elements) bytes += element + '\0';
  return bytes;
}

enum Repetition { kRequired, kOptional, kRepeated };
constexpr uint64_t kMap = 1, kList = 3;

std::string Group(const std::string& name, uint64_t num_children, Repetition repetition = kRequired,
                  uint64_t converted_type = 0) {
  std::string element = Integer(3, repetition) + Text(1, name) + Integer(1, num_children);
  if (converted_type != 0) element += Integer(1, converted_type);
  return element;
}
std::string Leaf(const std::string& name, Repetition repetition = kOptional) {
  return Integer(1, 6) + Integer(2, repetition) + Text(1, name);
}

std::string Footer(const std::vector<std::string>& schema, uint64_t num_rows,
                   const std::vector<std::string>& row_groups) {
  return Integer(1, 1) + Structs(1, schema) + Integer(1, num_rows) + Structs(1, row_groups) + '\0';
}

absl::StatusOr<std::vector<std::string>> ColumnNames(const std::vector<std::string>& schema) {
  const auto footer = ParseParquetFooter(Footer(schema, 0, {}));
  if (!footer.ok()) return footer.status();
  std::vector<std::string> names;
  for (const ParquetColumn& column : footer->columns) names.push_back(column.name);
  return names;
}

TEST(ParquetMetadataTest, ReadsTenThousandColumns) {
  constexpr uint64_t kColumns = 10000;
  std::vector<std::string> schema = {Group("root", kColumns)};
  for (uint64_t i = 0; i < kColumns; ++i) schema.push_back(Leaf("c" + std::to_string(i)));
  const auto names = ColumnNames(schema);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), kColumns);
}

// A schema is a list with numbers of children, so that a cycle can only be numbers that lie.
TEST(ParquetMetadataTest, RefusesSchemasThatAreNoTree) {
  const std::string leaf = Leaf("leaf");
  EXPECT_THAT(*ColumnNames({Group("root", 1), Group("group", 1), leaf}), ElementsAre("group.leaf"));
  const std::vector<std::vector<std::string>> wrong = {{Group("root", uint64_t{1} << 40), leaf},
                                                       {Group("root", 1), leaf, leaf},
                                                       {Group("root", 1), Group("group", 1)},
                                                       {Group("root", 2), Group("group", 2), leaf}};
  for (const auto& schema : wrong) {
    EXPECT_EQ(ColumnNames(schema).status().code(), absl::StatusCode::kInvalidArgument);
  }
  std::vector<std::string> deep(100000, Group("group", 1));
  deep.push_back(leaf);
  EXPECT_EQ(ColumnNames(deep).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParquetMetadataTest, NamesOfColumnsLeaveOutTheLevelsOfLists) {
  const auto names = ColumnNames(
      {Group("root", 6),                                                                  //
       Group("tags", 1, kOptional, kList), Group("list", 1, kRepeated), Leaf("element"),  //
       Group("authors", 1, kOptional, kList), Group("list", 1, kRepeated),
       Group("element", 2, kOptional), Leaf("name"),  //
       Group("ids", 1, kOptional, kList), Group("bag", 1, kRepeated), Leaf("array_element"),
       // As old writers did: the repeated field is the element.
       Group("old", 1, kOptional, kList), Leaf("array", kRepeated),  //
       Group("pairs", 1, kOptional, kList), Group("array", 1, kRepeated), Leaf("first"),
       // No list.
       Group("attributes", 1, kOptional, kMap), Group("key_value", 2, kRepeated),
       Leaf("key", kRequired), Leaf("value"),  //
       Leaf("repeated", kRepeated)});
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names,
              ElementsAre("tags", "authors.name", "authors.ids", "old", "pairs.first",
                          "attributes.key_value.key", "attributes.key_value.value", "repeated"));
}

// The error of the first row of a file of one row, whose column "c" has this chunk.
absl::Status ErrorOfChunk(const std::string& chunk) {
  const std::string footer =
      Footer({Group("root", 1), Leaf("c")}, 1, {Structs(1, {chunk}) + Integer(2, 1)});
  std::string size(4, '\0');
  for (size_t i = 0; i < 4; ++i) size[i] = static_cast<char>(footer.size() >> (8 * i));
  const std::string bytes = "PAR1" + footer + size + "PAR1";
  auto reader = ParquetReader::FromBytes(
      [&](int64_t offset, int64_t length) -> absl::StatusOr<std::string> {
        return bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
      },
      static_cast<int64_t>(bytes.size()), "x.parquet");
  if (!reader.ok()) return reader.status();
  if (const absl::Status selected = reader->Select({"c"}); !selected.ok()) return selected;
  return reader->Next();
}

TEST(ParquetMetadataTest, RefusesChunksThatAreEncryptedOrElsewhere) {
  // Type, codec, values, size, offset of the first page.
  const std::string metadata =
      Integer(1, 6) + Integer(3, 0) + Integer(1, 1) + Integer(2, 0) + Integer(2, 4);
  const std::string offset = Integer(2, 4);
  const absl::Status elsewhere =
      ErrorOfChunk(Text(1, "other.parquet") + Integer(1, 4) + Struct(1, metadata));
  EXPECT_EQ(elsewhere.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(elsewhere.message(),
            "x.parquet, column \"c\", row group 0, row 0: its values are in another file");
  for (const std::string& encrypted :
       {offset + Struct(1, metadata) + Struct(5, ""), offset + Text(7, "secret"), offset}) {
    const absl::Status status = ErrorOfChunk(encrypted);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_EQ(status.message(), "x.parquet, column \"c\", row group 0, row 0: it is encrypted");
  }
  EXPECT_EQ(ErrorOfChunk(offset + Struct(1, metadata)).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ParseParquetFooter(Footer({Group("root", 0)}, 0, {}).substr(0, 20)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The sum of two sizes must not overflow.
TEST(ParquetMetadataTest, RefusesLevelsBeyondTheSizesOfTheFormat) {
  const auto header = [](uint64_t size) {
    const std::string page = Integer(1, 1) + Integer(1, 0) + Integer(1, 1) + Integer(1, 0) +
                             Integer(1, size) + Integer(1, size);
    return Integer(1, 3) + Integer(1, 100) + Integer(1, 100) + Struct(5, page) + '\0';
  };
  size_t size = 0;
  EXPECT_EQ(ParseParquetPage(header(7), &size)->definition_size, 7);
  EXPECT_EQ(ParseParquetPage(header(INT64_MAX), &size).status().code(),
            absl::StatusCode::kDataLoss);
}

// Otherwise each byte of a list could be an element, which takes far more memory.
TEST(ParquetMetadataTest, RefusesEmptyElements) {
  const std::string group = Structs(1, std::vector<std::string>(1000)) + Integer(2, 0);
  for (const std::string& footer :
       {Footer({"", "", ""}, 0, {}), Footer({Group("root", 1), Leaf("c")}, 0, {group})}) {
    const absl::Status status = ParseParquetFooter(footer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("Thrift"), std::string::npos) << status;
  }
}

}  // namespace parquet_metadata_test
}  // namespace braid
