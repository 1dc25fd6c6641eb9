#include "formats/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "formats/npy_header.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace npy_test {

using absl::StatusCode;

std::string FileWithDict(std::string dict, const std::string& data = "") {
  dict += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size() & 255) +
         static_cast<char>(dict.size() >> 8) + dict + data;
}

TEST(NpyHeaderTest, EqualsTheBytesOfNumpy) {
  const std::vector<int64_t> shape = {2, 3};
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict +
                               std::string(117 - dict.size(), ' ') + "\n";
  EXPECT_EQ(FormatNpyHeader("<f4", shape), expected);
}

TEST(NpyHeaderTest, RoundTripsShapesAtAConstantLength) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {}, {0}, {3}, {1, 2, 3}, {INT64_MAX}, {12345678901234, 7}}) {
    const std::string text = FormatNpyHeader("|u1", shape);
    EXPECT_EQ(text.size() % 64, 0u);
    ASSERT_OK_AND_ASSIGN(NpyHeader header, ParseNpyHeader(text, "x"));
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.descr, "|u1");
    EXPECT_FALSE(header.fortran_order);
    EXPECT_EQ(header.data_offset, static_cast<int64_t>(text.size()));
  }
  for (int64_t rows = 0; rows < INT64_MAX / 10; rows = rows * 10 + 9) {
    const std::vector<int64_t> first = {0, 512}, later = {rows, 512};
    EXPECT_EQ(FormatNpyHeader("<f4", first).size(), FormatNpyHeader("<f4", later).size()) << rows;
  }
}

TEST(NpyHeaderTest, UsesVersionTwoForLongHeaders) {
  const std::vector<int64_t> shape(30000, 1);
  const std::string text = FormatNpyHeader("<f4", shape);
  EXPECT_EQ(text[6], 2);
  ASSERT_OK_AND_ASSIGN(NpyHeader header, ParseNpyHeader(text, "x"));
  EXPECT_EQ(header.shape, shape);
}

TEST(NpyHeaderTest, AcceptsOtherSpellings) {
  ASSERT_OK_AND_ASSIGN(
      NpyHeader header,
      ParseNpyHeader(FileWithDict("{\"shape\":(4 ,5),'fortran_order':True , 'descr':'<i8'}"), "x"));
  EXPECT_EQ(header.shape, (std::vector<int64_t>{4, 5}));
  EXPECT_TRUE(header.fortran_order);
}

TEST(NpyHeaderTest, RejectsMalformedDicts) {
  for (const char* dict :
       {"", "{", "{}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } junk",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "{'descr': '<f4"}) {
    EXPECT_FAILS(ParseNpyHeader(FileWithDict(dict), "/some/x.npy"), StatusCode::kDataLoss,
                 "/some/x.npy", "bad header at byte ", "expected")
        << dict;
  }
}

template <class T>
class NpyTypedTest : public testing::Test {};
using ElementTypes = testing::Types<float, double, int32_t, int64_t, uint8_t, uint16_t, uint32_t>;
TYPED_TEST_SUITE(NpyTypedTest, ElementTypes);

TYPED_TEST(NpyTypedTest, StreamsRowsAndMapsThemBack) {
  ScratchDirectory scratch;
  std::mt19937_64 random(5);
  std::vector<TypeParam> expected(3 * 1000);
  for (TypeParam& value : expected) value = static_cast<TypeParam>(random() % 251);
  ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<TypeParam>::Create(scratch / "x.npy", {3}));
  for (int64_t done = 0; done < 1000;) {
    const int64_t rows = std::min<int64_t>(random() % 100, 1000 - done);
    ASSERT_OK(writer.AppendRows(std::span<const TypeParam>(expected).subspan(3 * done, 3 * rows)));
    done += rows;
  }
  ASSERT_OK_AND_ASSIGN(FileSummary summary, writer.Commit());
  EXPECT_EQ(summary.crc32c, Crc32c(GetFile(scratch / "x.npy")));

  ASSERT_OK_AND_ASSIGN(auto array, NpyArray<TypeParam>::Open(scratch / "x.npy"));
  EXPECT_TRUE(std::ranges::equal(array.shape(), std::vector<int64_t>{1000, 3}));
  EXPECT_TRUE(std::ranges::equal(array.values(), expected));
  EXPECT_EQ(array.num_rows(), 1000);
  EXPECT_TRUE(std::ranges::equal(array.row(2), std::span(expected).subspan(6, 3)));
}

TYPED_TEST(NpyTypedTest, StreamedAndWholeFilesAreEqual) {
  ScratchDirectory scratch;
  const std::vector<TypeParam> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> shape = {3, 2};
  FileSummary whole;
  ASSERT_OK(WriteNpy<TypeParam>(scratch / "whole", shape, values, &whole));
  ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<TypeParam>::Create(scratch / "streamed", {2}));
  ASSERT_OK(writer.AppendRows(values));
  ASSERT_OK_AND_ASSIGN(FileSummary streamed, writer.Commit());
  EXPECT_EQ(GetFile(scratch / "whole"), GetFile(scratch / "streamed"));
  EXPECT_EQ(whole.crc32c, streamed.crc32c);
}

TEST(NpyArrayTest, RejectsInvalidRowSizesEvenWithoutRows) {
  ScratchDirectory scratch;
  PutFile(scratch / "x.npy", FileWithDict("{'descr': '<f4', 'fortran_order': False, 'shape': "
                                          "(0, 4294967296, 4294967296), }"));
  EXPECT_FAILS(NpyArray<float>::Open(scratch / "x.npy"), StatusCode::kDataLoss, "bad shape");
}

TEST(NpyArrayTest, KeepsEmptyAndScalarArrays) {
  ScratchDirectory scratch;
  ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<float>::Create(scratch / "empty", {4}));
  ASSERT_OK(writer.Commit());
  ASSERT_OK_AND_ASSIGN(auto empty, NpyArray<float>::Open(scratch / "empty"));
  EXPECT_EQ(empty.num_rows(), 0);
  EXPECT_TRUE(empty.values().empty());
  const std::vector<double> value = {2.5};
  ASSERT_OK(WriteNpy<double>(scratch / "scalar", {}, value));
  ASSERT_OK_AND_ASSIGN(auto scalar, NpyArray<double>::Open(scratch / "scalar"));
  EXPECT_TRUE(scalar.shape().empty());
  EXPECT_EQ(scalar.row(0)[0], 2.5);
}

TEST(NpyArrayTest, SurvivesBeingMoved) {
  ScratchDirectory scratch;
  const std::vector<int32_t> values = {7, 8};
  const std::vector<int64_t> shape = {2};
  ASSERT_OK(WriteNpy<int32_t>(scratch / "x", shape, values));
  ASSERT_OK_AND_ASSIGN(auto array, NpyArray<int32_t>::Open(scratch / "x"));
  const NpyArray<int32_t> moved = std::move(array);
  EXPECT_EQ(moved.values()[1], 8);
}

TEST(NpyArrayTest, ExplainsUnsupportedFiles) {
  ScratchDirectory scratch;
  const auto open = [&](const std::string& dict, const std::string& data) {
    PutFile(scratch / "x", FileWithDict(dict, data));
    return NpyArray<float>::Open(scratch / "x").status();
  };
  const std::string path = (scratch / "x").string();
  EXPECT_FAILS(open("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"),
               StatusCode::kInvalidArgument, path, "got >f4, expected <f4", "astype");
  EXPECT_FAILS(open("{'descr': '<f4', 'fortran_order': True, 'shape': (1,1), }", "1234"),
               StatusCode::kInvalidArgument, path, "Fortran", "ascontiguousarray");
  EXPECT_FAILS(
      open("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,4), }", ""),
      StatusCode::kDataLoss, path, "shape");
  EXPECT_FAILS(open("{'descr': '<f4', 'fortran_order': False, 'shape': (1,),  }", "1234"),
               StatusCode::kInvalidArgument, path, "offset");
  EXPECT_FAILS(open("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }    ", "1234"),
               StatusCode::kDataLoss, path, "got 4 bytes, expected 8 bytes");
}

TEST(NpyArrayTest, DetectsOrSurvivesEveryDamage) {
  ScratchDirectory scratch;
  const std::vector<int32_t> values = {7, 8};
  const std::vector<int64_t> shape = {1, 2};
  ASSERT_OK(WriteNpy<int32_t>(scratch / "x", shape, values));
  ForEachDamage(scratch / "x", [&](bool is_truncation) {
    const auto array = NpyArray<int32_t>::Open(scratch / "x");
    if (is_truncation) {
      EXPECT_FALSE(array.ok());
    }
    if (!array.ok()) {
      EXPECT_FAILS(array, array.status().code(), (scratch / "x").string(), "got ", "expected ");
      return;
    }
    EXPECT_EQ(array->values().size(), 2u);
    EXPECT_EQ(array->num_rows() * array->row_size(), 2);
  });
}

TEST(NpyWriterTest, RefusesPartialRowsAndEmptyDimensions) {
  ScratchDirectory scratch;
  EXPECT_FAILS(NpyWriter<float>::Create(scratch / "x", {0}), StatusCode::kInvalidArgument,
               "positive");
  EXPECT_FAILS(NpyWriter<float>::Create(scratch / "x", {-1}), StatusCode::kInvalidArgument,
               "positive");
  ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<float>::Create(scratch / "x", {2}));
  const std::vector<float> values(3);
  EXPECT_FAILS(writer.AppendRows(values), StatusCode::kInvalidArgument, "got 3", "row size 2");
  const std::vector<int64_t> shape = {2, 2};
  EXPECT_FAILS(WriteNpy<float>(scratch / "y", shape, values), StatusCode::kInvalidArgument,
               "got 3 values, expected 4");
}

}  // namespace npy_test
}  // namespace braid
