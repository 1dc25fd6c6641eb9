#include "formats/packed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/manifest.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace packed_dataset_test {

using absl::StatusCode;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

DatasetInfo Example() {
  return {.name = "web",
          .key = "0123456789abcdef0123456789abcdef",
          .order = "SIMILARITY",
          .sequence_length = 128,
          .vocab_size = 400,
          .eos_id = 2,
          .num_instances = 9,
          .num_tokens = 1100,
          .num_documents = 31,
          .num_heldout_documents = 2,
          .domains = {"code", "law"},
          .domain_clusters = 4,
          .seed = std::numeric_limits<uint64_t>::max()};
}

class PackedDatasetTest : public testing::Test {
 protected:
  // Writes the example, lets `change` edit it as JSON and returns what reading it reports.
  template <class Change>
  absl::Status StatusAfter(const Change& change) {
    EXPECT_OK(WriteDatasetInfo(scratch_.path(), Example()).status());
    json object = json::parse(GetFile(scratch_ / kDatasetInfoName));
    change(object);
    EXPECT_OK(WriteFileAtomically(scratch_ / kDatasetInfoName, object.dump()));
    return ReadDatasetInfo(scratch_.path()).status();
  }

  // Expects that reading refuses `value` in `field` by name.
  void ExpectRefused(const std::string& field, const json& value) {
    const absl::Status status = StatusAfter([&](json& object) { object[field] = value; });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field << " " << value;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr((scratch_ / kDatasetInfoName).string() + ": " + field + ": got "),
                      HasSubstr("expected ")))
        << value;
  }

  absl::Status StatusOfText(const std::string& text) {
    EXPECT_OK(WriteFileAtomically(scratch_ / kDatasetInfoName, text));
    return ReadDatasetInfo(scratch_.path()).status();
  }

  ScratchDirectory scratch_;
};

TEST_F(PackedDatasetTest, RoundTrips) {
  ASSERT_OK_AND_ASSIGN(const FileSummary written, WriteDatasetInfo(scratch_.path(), Example()));
  EXPECT_EQ(written.name, kDatasetInfoName);
  ASSERT_OK_AND_ASSIGN(const FileSummary found, SummarizeFile(scratch_ / kDatasetInfoName));
  EXPECT_EQ(written.crc32c, found.crc32c);
  ASSERT_OK_AND_ASSIGN(const DatasetInfo read, ReadDatasetInfo(scratch_.path()));
  EXPECT_EQ(read, Example());
}

// The text is part of the contract: a dataset that is packed again has to have the same bytes.
TEST_F(PackedDatasetTest, TheTextIsStable) {
  ASSERT_OK(WriteDatasetInfo(scratch_.path(), Example()).status());
  EXPECT_EQ(GetFile(scratch_ / kDatasetInfoName), R"({
  "domain_clusters": 4,
  "domains": [
    "code",
    "law"
  ],
  "eos_id": 2,
  "key": "0123456789abcdef0123456789abcdef",
  "name": "web",
  "num_documents": 31,
  "num_heldout_documents": 2,
  "num_instances": 9,
  "num_tokens": 1100,
  "order": "SIMILARITY",
  "seed": 18446744073709551615,
  "sequence_length": 128,
  "vocab_size": 400
}
)");
}

TEST_F(PackedDatasetTest, EveryFieldButDomainClustersIsRequired) {
  ASSERT_OK(WriteDatasetInfo(scratch_.path(), Example()).status());
  const json example = json::parse(GetFile(scratch_ / kDatasetInfoName));
  for (const auto& [field, value] : example.items()) {
    const absl::Status status = StatusAfter([&](json& object) { object.erase(field); });
    if (field == "domain_clusters") {
      EXPECT_OK(status);
      continue;
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr(": " + field + ": got nothing"));
  }
}

TEST_F(PackedDatasetTest, RunsPerInstanceAreAtLeastOneAndOneIfAbsent) {
  DatasetInfo info = Example();
  EXPECT_EQ(info.runs_per_instance, 1);
  info.runs_per_instance = 2;
  ASSERT_OK(WriteDatasetInfo(scratch_.path(), info).status());
  EXPECT_EQ(json::parse(GetFile(scratch_ / kDatasetInfoName))["runs_per_instance"], 2);
  ASSERT_OK_AND_ASSIGN(const DatasetInfo read, ReadDatasetInfo(scratch_.path()));
  EXPECT_EQ(read, info);
  for (const json& value : {json(0), json("2"), json(int64_t{1} << 31)}) {
    ExpectRefused("runs_per_instance", value);
  }
}

TEST_F(PackedDatasetTest, RefusesWrongTypesByName) {
  for (const char* field :
       {"sequence_length", "vocab_size", "eos_id", "num_instances", "num_tokens", "num_documents",
        "num_heldout_documents", "domain_clusters", "seed"}) {
    for (const json& value : {json("9"), json(9.5), json(nullptr), json(-1)}) {
      ExpectRefused(field, value);
    }
  }
  for (const char* field : {"name", "key", "order"}) ExpectRefused(field, 7);
  ExpectRefused("domains", "code");
  ExpectRefused("domains", json::array({"code", 1}));
}

TEST_F(PackedDatasetTest, RefusesValuesOutOfRangeByName) {
  constexpr uint64_t kTooLarge = std::numeric_limits<uint64_t>::max() - 1;  // -2 when wrapped
  for (const char* field : {"sequence_length", "vocab_size", "eos_id", "num_instances",
                            "num_tokens", "num_documents", "num_heldout_documents"}) {
    ExpectRefused(field, kTooLarge);
  }
  for (const char* field : {"sequence_length", "vocab_size"}) {
    ExpectRefused(field, 0);
    ExpectRefused(field, int64_t{1} << 31);
  }
  ExpectRefused("eos_id", 400);  // the size of the vocabulary
  ExpectRefused("domain_clusters", int64_t{1} << 31);
  ExpectRefused("key", "");
  ExpectRefused("order", "similarity");
}

TEST_F(PackedDatasetTest, RefusesAnInstanceCountThatTheTokensDoNotFill) {
  ExpectRefused("num_instances", 8);
  ExpectRefused("num_instances", 10);
  const auto with_tokens = [&](int64_t num_tokens) {
    return StatusAfter([&](json& object) { object["num_tokens"] = num_tokens; });
  };
  EXPECT_OK(with_tokens(8 * 129 + 1));
  EXPECT_OK(with_tokens(9 * 129));
  EXPECT_FALSE(with_tokens(8 * 129).ok());
  EXPECT_FALSE(with_tokens(9 * 129 + 1).ok());
  EXPECT_FALSE(with_tokens(std::numeric_limits<int64_t>::max()).ok());
}

TEST_F(PackedDatasetTest, RefusesDomainsThatAreNotDistinctFileNames) {
  for (const char* name : {"", ".", "..", "../law", "a/b"}) {
    ExpectRefused("domains", json::array({"code", name}));
  }
  ExpectRefused("domains", json::array({"code", "law", "code"}));
}

TEST_F(PackedDatasetTest, RefusesUnknownVersions) {
  EXPECT_OK(StatusAfter([](json& object) { object["version"] = kDatasetInfoVersion; }));
  ExpectRefused("version", kDatasetInfoVersion + 1);
  ExpectRefused("version", 0);
  ExpectRefused("version", "1");
  // The version decides what the other fields mean, so it is reported first.
  const absl::Status status = StatusAfter([](json& object) { object = {{"version", 4}}; });
  EXPECT_THAT(std::string(status.message()), HasSubstr(": version: got 4"));
}

TEST_F(PackedDatasetTest, SupervisedDatasetsHaveExamplesAndTheSecondVersion) {
  DatasetInfo info = Example();
  info.supervised = true;
  info.num_examples = 57;
  ASSERT_OK(WriteDatasetInfo(scratch_.path(), info).status());
  ASSERT_OK_AND_ASSIGN(const DatasetInfo read, ReadDatasetInfo(scratch_.path()));
  EXPECT_EQ(read, info);
  EXPECT_EQ(json::parse(GetFile(scratch_ / kDatasetInfoName))["version"], 2);
  for (const json& value : {json(1), json("true"), json(nullptr)}) {
    ExpectRefused("supervised", value);
  }
  ExpectRefused("num_examples", 57);  // in a dataset that is not supervised
  EXPECT_FALSE(StatusAfter([](json& object) { object["supervised"] = true; }).ok());
}

TEST_F(PackedDatasetTest, IgnoresUnknownFields) {
  EXPECT_OK(StatusAfter([](json& object) { object["comment"] = "packed on a Monday"; }));
}

TEST_F(PackedDatasetTest, RefusesDamagedText) {
  for (const char* text : {"", "{", "[1]", "null", R"({"key":"a","key":"b"})",
                           "{\"name\":\"\xff\"}", R"({"domains":[[["deep"]]]})"}) {
    const absl::Status status = StatusOfText(text);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("dataset.json is damaged")) << text;
  }
}

TEST_F(PackedDatasetTest, ReportsALongValueInShort) {
  const absl::Status status =
      StatusAfter([](json& object) { object["order"] = std::string(1 << 20, 'x'); });
  EXPECT_LT(status.message().size(), 1000u);
}

TEST_F(PackedDatasetTest, ADirectoryWithoutDescriptionIsNotADataset) {
  const absl::Status status = ReadDatasetInfo(scratch_.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a packed dataset"));
}

TEST_F(PackedDatasetTest, DoesNotWriteWhatItWouldRefuseToRead) {
  DatasetInfo info = Example();
  info.domains = {"../../etc"};
  const absl::Status status = WriteDatasetInfo(scratch_.path(), info).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(": domains: got \"../../etc\""));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / kDatasetInfoName));
}

// A dataset whose data files hold placeholders, with its manifest.
class VerifyDatasetTest : public PackedDatasetTest {
 protected:
  void SetUp() override {
    manifest_ = {.kind = "pack", .key = Example().key};
    ASSERT_OK_AND_ASSIGN(const FileSummary info, WriteDatasetInfo(scratch_.path(), Example()));
    manifest_.files.push_back(MakeManifestEntry(info, 1));
    for (const char* name : {"instances.bin", "instances.idx", "tokenizer.model"}) {
      ASSERT_OK(WriteFileAtomically(scratch_ / name, name));
      ASSERT_OK_AND_ASSIGN(const FileSummary summary, SummarizeFile(scratch_ / name));
      manifest_.files.push_back(MakeManifestEntry(summary, 1));
    }
    ASSERT_OK(manifest_.Save(scratch_.path()));
  }

  std::string ErrorOfSaved(const Manifest& manifest) {
    EXPECT_OK(manifest.Save(scratch_.path()));
    return std::string(VerifyDataset(scratch_.path()).message());
  }

  Manifest manifest_;
};

TEST_F(VerifyDatasetTest, AcceptsACompleteDataset) { EXPECT_OK(VerifyDataset(scratch_.path())); }

TEST_F(VerifyDatasetTest, SupervisedDatasetsListTheirSpans) {
  DatasetInfo info = Example();
  info.supervised = true;
  info.num_examples = 1;
  ASSERT_OK_AND_ASSIGN(const FileSummary summary, WriteDatasetInfo(scratch_.path(), info));
  manifest_.files[0] = MakeManifestEntry(summary, 1);
  EXPECT_THAT(ErrorOfSaved(manifest_), HasSubstr("got no entry for spans.npy"));
}

TEST_F(VerifyDatasetTest, NamesTheFileThatIsDamagedOrMissing) {
  ASSERT_OK(WriteFileAtomically(scratch_ / "instances.idx", "instances.IDX"));
  EXPECT_THAT(std::string(VerifyDataset(scratch_.path()).message()), HasSubstr("instances.idx"));
  std::filesystem::remove(scratch_ / "instances.bin");
  EXPECT_THAT(std::string(VerifyDataset(scratch_.path()).message()), HasSubstr("instances.bin"));
  std::filesystem::remove(scratch_ / kManifestName);
  EXPECT_EQ(VerifyDataset(scratch_.path()).code(), StatusCode::kNotFound);
}

TEST_F(VerifyDatasetTest, RefusesTheManifestOfSomethingElse) {
  Manifest other = manifest_;
  other.key = "fedcba9876543210fedcba9876543210";
  EXPECT_THAT(ErrorOfSaved(other), AllOf(HasSubstr(other.key), HasSubstr(manifest_.key)));
  other = manifest_;
  other.kind = "tokenize";
  EXPECT_THAT(ErrorOfSaved(other), AllOf(HasSubstr("tokenize"), HasSubstr("pack")));
  other = manifest_;
  other.files.pop_back();
  EXPECT_THAT(ErrorOfSaved(other), HasSubstr("tokenizer.model"));
}

}  // namespace packed_dataset_test
}  // namespace braid
