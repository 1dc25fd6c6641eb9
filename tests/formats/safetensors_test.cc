#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace safetensors_test {

using absl::StatusCode;

std::string FileWithHeader(const std::string& json, const std::string& data = "") {
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(json.size() >> (8 * i));
  return length + json + data;
}

class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return scratch_ / "x.safetensors"; }
  absl::Status OpenBytes(const std::string& bytes) {
    PutFile(path(), bytes);
    return SafetensorsFile::Open(path()).status();
  }
  void WriteExample() {
    ASSERT_OK_AND_ASSIGN(auto writer,
                         SafetensorsWriter::Create(path(), {{"a", DType::kF32, {2}}}, {}));
    ASSERT_OK(writer->Write("a", AsBytes(std::span<const float>(example_))));
    ASSERT_OK_AND_ASSIGN(summary_, writer->Commit());
  }

  ScratchDirectory scratch_;
  const std::vector<float> example_ = {1.5, -2};
  FileSummary summary_;
};

TEST_F(SafetensorsTest, WritesTheReferenceBytes) {
  WriteExample();
  const std::string expected =
      FromHex("5800000000000000") +
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" +
      "   " + FromHex("0000c03f000000c0");
  EXPECT_EQ(GetFile(path()), expected);
  EXPECT_EQ(summary_.bytes, 104);
  EXPECT_EQ(summary_.crc32c, Crc32c(expected));
}

TEST_F(SafetensorsTest, OrdersByElementSizeThenName) {
  ASSERT_OK_AND_ASSIGN(auto placed, PlaceTensors({{"b", DType::kF32, {1}},
                                                  {"z", DType::kI64, {2}},
                                                  {"c", DType::kU8, {3}},
                                                  {"a", DType::kI32, {1, 2}},
                                                  {"h", DType::kBF16, {}},
                                                  {"none", DType::kF32, {0, 5}}}));
  std::string order;
  for (const PlacedTensor& tensor : placed) {
    order += tensor.info.name + "@" + std::to_string(tensor.begin) + " ";
    EXPECT_EQ(tensor.begin % DTypeBytes(tensor.info.dtype), 0);
  }
  EXPECT_EQ(order, "z@0 a@16 b@24 none@28 h@28 c@30 ");
}

TEST_F(SafetensorsTest, StreamsRandomTensorsInAnyOrder) {
  std::mt19937_64 random(13);
  std::vector<TensorInfo> layout;
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 20; ++i) {
    const DType dtype = i % 3 ? DType::kF32 : i % 2 ? DType::kU8 : DType::kF64;
    layout.push_back({std::string("t").append(std::to_string(i)),
                      dtype,
                      {static_cast<int64_t>(random() % 50), 7}});
    std::string& bytes = expected[layout.back().name];
    bytes.resize(layout.back().shape[0] * 7 * DTypeBytes(dtype));
    for (char& c : bytes) c = static_cast<char>(random());
  }
  ASSERT_OK_AND_ASSIGN(auto writer, SafetensorsWriter::Create(path(), layout, {{"step", "480"}}));
  std::map<std::string, size_t> done;
  for (size_t remaining = layout.size(); remaining > 0;) {
    const std::string& name = layout[random() % layout.size()].name;
    const std::string& bytes = expected[name];
    size_t& begin = done[name];
    if (begin > bytes.size()) continue;
    const std::string piece = bytes.substr(begin, 1 + random() % 500);
    ASSERT_OK(writer->Write(name, piece));
    begin += piece.size();
    if (begin == bytes.size()) begin = bytes.size() + 1, --remaining;
  }
  ASSERT_OK_AND_ASSIGN(FileSummary summary, writer->Commit());
  EXPECT_EQ(summary.crc32c, Crc32c(GetFile(path())));

  ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(path()));
  EXPECT_EQ(file.tensors().size(), layout.size());
  EXPECT_EQ(file.metadata(),
            (std::map<std::string, std::string>{{"format", "pt"}, {"step", "480"}}));
  for (const TensorInfo& tensor : layout) {
    ASSERT_NE(file.Find(tensor.name), nullptr);
    EXPECT_EQ(*file.Find(tensor.name), tensor);
    ASSERT_OK_AND_ASSIGN(std::string_view bytes, file.Bytes(tensor.name));
    EXPECT_TRUE(bytes == expected[tensor.name]) << tensor.name;
    if (tensor.dtype != DType::kF32) continue;
    ASSERT_OK_AND_ASSIGN(auto floats, file.Float(tensor.name));
    EXPECT_TRUE(AsBytes(floats) == bytes);
  }
}

TEST_F(SafetensorsTest, ReadsForeignFiles) {
  // Any JSON order, an unpadded header, a scalar, no metadata.
  const std::string json = R"({"b":{"data_offsets":[4,8],"shape":[],"dtype":"F32"},)"
                           R"( "a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}})";
  EXPECT_OK(OpenBytes(FileWithHeader(json + std::string(7 - json.size() % 8, ' '), "12345678")));
  ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(path()));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(*file.Bytes("b"), "5678");
  EXPECT_FAILS(file.Float("b"), StatusCode::kInvalidArgument, "'b'", "aligned");
  EXPECT_FAILS(file.Float("a"), StatusCode::kInvalidArgument, "got F16, expected F32");
  EXPECT_FAILS(file.Float("c"), StatusCode::kNotFound, path().string(), "'c'");
  EXPECT_OK(OpenBytes(FileWithHeader("{}")));
}

TEST_F(SafetensorsTest, RejectsBadHeaders) {
  const std::string ok = R"("dtype":"U8","shape":[2],"data_offsets":[0,2])";
  for (const std::string& json : std::vector<std::string>{
           "",
           "[]",
           " {}",
           "{",
           "null",
           "\xff",
           "{\"a\":1}",
           "{\"a\":{}}",
           "{\"a\":{" + ok + ",\"more\":1}}",          // extra key
           "{\"a\":{" + ok + "},\"a\":{" + ok + "}}",  // repeated
           R"({"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
           R"({"a":{"dtype":"U9","shape":[2],"data_offsets":[0,2]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}})",  // size
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",  // bytes left
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",  // hole
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",  // past the end
           R"({"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}})",
           R"({"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}})",
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2,2]}})",
           R"({"a":{"dtype":"U8","shape":2,"data_offsets":[0,2]}})",
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,18446744073709551615]}})",
           R"({"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,2]}})",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",  // overlap
           "{\"__metadata__\":{\"k\":1},\"a\":{" + ok + "}}",
           "{\"__metadata__\":[],\"a\":{" + ok + "}}",
           std::string(100000, '['),
           "{\"a\":" + std::string(100000, '[')}) {
    EXPECT_FAILS(OpenBytes(FileWithHeader(json, "12")), StatusCode::kDataLoss, path().string(),
                 "got ", "expected ")
        << json.substr(0, 200);
  }
  EXPECT_FAILS(OpenBytes(FromHex("ffffffffffffffff") + "{}"), StatusCode::kDataLoss,
               "header length", "got 18446744073709551615");
  EXPECT_FAILS(OpenBytes(""), StatusCode::kDataLoss, "got 0 bytes");
}

TEST_F(SafetensorsTest, TypesOfPartsOfAByteAreNotDamage) {
  for (const std::string dtype : {"F4", "F6_E2M3", "F6_E3M2"}) {
    const std::string json =
        R"({"a":{"dtype":")" + dtype + R"(","shape":[4],"data_offsets":[0,2]}})";
    EXPECT_FAILS(OpenBytes(FileWithHeader(json, "12")), StatusCode::kUnimplemented, path().string(),
                 "tensor 'a': got element type " + dtype);
  }
}

TEST_F(SafetensorsTest, DetectsOrSurvivesEveryDamage) {
  WriteExample();
  ForEachDamage(path(), [&](bool is_truncation) {
    const auto file = SafetensorsFile::Open(path());
    if (is_truncation) {
      EXPECT_FALSE(file.ok());
    }
    if (!file.ok()) {
      EXPECT_FAILS(file, file.status().code(), path().string(), "got ", "expected ");
      return;
    }
    ASSERT_EQ(file->tensors().size(), 1u);
    EXPECT_EQ(file->Bytes(file->tensors()[0].name)->size(), 8u);
  });
}

TEST_F(SafetensorsTest, WriterRefusesBadLayouts) {
  const auto create = [&](std::vector<TensorInfo> layout, std::map<std::string, std::string> m) {
    return SafetensorsWriter::Create(path(), std::move(layout), std::move(m)).status();
  };
  EXPECT_FAILS(create({{"a", DType::kU8, {1}}, {"a", DType::kF32, {1}}}, {}),
               StatusCode::kInvalidArgument, "'a'", "repeated");
  EXPECT_FAILS(create({{"__metadata__", DType::kU8, {1}}}, {}), StatusCode::kInvalidArgument,
               "reserved");
  EXPECT_FAILS(create({{"a", DType::kU8, {-1}}}, {}), StatusCode::kInvalidArgument, "'a'", "-1");
  EXPECT_FAILS(create({{"a", DType::kF64, {INT64_MAX}}}, {}), StatusCode::kInvalidArgument, "'a'");
  EXPECT_FAILS(create({{"\xff", DType::kU8, {1}}}, {}), StatusCode::kInvalidArgument, "UTF-8");
  EXPECT_FAILS(create({}, {{"k", "\xff"}}), StatusCode::kInvalidArgument, "UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(SafetensorsTest, WriterRefusesUnknownExcessAndMissingBytes) {
  ASSERT_OK_AND_ASSIGN(auto writer,
                       SafetensorsWriter::Create(path(), {{"a", DType::kU8, {4}}}, {}));
  EXPECT_FAILS(writer->Write("b", "1"), StatusCode::kNotFound, "'b'");
  ASSERT_OK(writer->Write("a", "123"));
  EXPECT_FAILS(writer->Write("a", "45"), StatusCode::kOutOfRange, "'a'", "got 2", "at most 1");
  EXPECT_FAILS(writer->Commit(), StatusCode::kFailedPrecondition, "'a' lacks 1 bytes");
  ASSERT_OK(writer->Write("a", "4"));
  EXPECT_OK(writer->Commit());
}

TEST_F(SafetensorsTest, EscapesNames) {
  const std::string name = "quote\" back\\slash \u00e9\n";
  ASSERT_OK_AND_ASSIGN(
      auto writer, SafetensorsWriter::Create(path(), {{name, DType::kU8, {1}}}, {{name, name}}));
  ASSERT_OK(writer->Write(name, "x"));
  ASSERT_OK(writer->Commit());
  ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(path()));
  EXPECT_EQ(*file.Bytes(name), "x");
  EXPECT_EQ(file.metadata().at(name), name);
}

}  // namespace safetensors_test
}  // namespace braid
