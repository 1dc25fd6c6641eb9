#include "formats/manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "base/crc32c.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace manifest_test {

using absl::StatusCode;

// A directory with two files and the manifest that describes them.
class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeDirectories(scratch_ / "below"));
    manifest_ = {.kind = "embed", .key = "0123abcd"};
    Add("", "vectors.bin", "some bytes", 3);
    Add("below", "ids.bin", "more", 1);
    manifest_.settings = {{"dimension", "512"}, {"name", "f\u00fcnf \"quoted\""}};
  }
  void Add(const std::string& directory, const std::string& name, const std::string& bytes,
           int64_t records) {
    ASSERT_OK(WriteFileAtomically(scratch_.path() / directory / name, bytes));
    ASSERT_OK_AND_ASSIGN(FileSummary summary, SummarizeFile(scratch_.path() / directory / name));
    manifest_.files.push_back(MakeManifestEntry(summary, records, directory));
  }

  ScratchDirectory scratch_;
  Manifest manifest_;
};

TEST_F(ManifestTest, RoundTrips) {
  ASSERT_OK(manifest_.Save(scratch_.path()));
  ASSERT_OK_AND_ASSIGN(Manifest loaded, LoadVerifiedManifest(scratch_.path()));
  EXPECT_EQ(loaded, manifest_);
  ASSERT_NE(loaded.Find("below/ids.bin"), nullptr);
  EXPECT_EQ(loaded.Find("below/ids.bin")->crc32c, Crc32c("more"));
  EXPECT_EQ(loaded.Find("ids.bin"), nullptr);
}

TEST_F(ManifestTest, AWrittenFileMatchesItsEntry) {
  ASSERT_OK_AND_ASSIGN(const ManifestEntry entry,
                       WriteFileForManifest(scratch_ / "state.json", "text", 7));
  EXPECT_EQ(entry, (ManifestEntry{"state.json", 4, Crc32c("text"), 7}));
  EXPECT_OK(VerifyFile(scratch_.path(), entry));
}

TEST_F(ManifestTest, IsReadableJson) {
  ASSERT_OK((
      Manifest{.kind = "k", .key = "x", .files = {{"a", 9, 0xE3069283, 2}}}.Save(scratch_.path())));
  EXPECT_EQ(GetFile(scratch_ / "manifest.json"), R"({
  "version": 1,
  "kind": "k",
  "key": "x",
  "files": [
    {
      "name": "a",
      "bytes": 9,
      "crc32c": "e3069283",
      "records": 2
    }
  ],
  "settings": {},
  "manifest_crc32c": "bf195b7b"
}
)");
}

TEST_F(ManifestTest, DetectsEveryDamageToAFileAndNamesIt) {
  const ManifestEntry& entry = manifest_.files[0];
  ASSERT_OK(VerifyFile(scratch_.path(), entry));
  ForEachDamage(scratch_ / entry.name, [&](bool is_truncation) {
    const absl::Status status = VerifyFile(scratch_.path(), entry);
    EXPECT_FAILS(status, StatusCode::kDataLoss, (scratch_ / entry.name).string(), "got ",
                 is_truncation ? "expected 10 bytes" : Crc32cToHex(entry.crc32c).c_str());
  });
  EXPECT_OK(VerifyFile(scratch_.path(), entry));
}

TEST_F(ManifestTest, VerifyAllNamesTheDamagedOrMissingFile) {
  PutFile(scratch_ / "below/ids.bin", "mare");
  EXPECT_FAILS(manifest_.VerifyAll(scratch_.path()), StatusCode::kDataLoss, "below/ids.bin",
               Crc32cToHex(Crc32c("mare")), Crc32cToHex(Crc32c("more")));
  std::filesystem::remove(scratch_ / "below/ids.bin");
  EXPECT_FAILS(manifest_.VerifyAll(scratch_.path()), StatusCode::kNotFound, "below/ids.bin");
}

TEST_F(ManifestTest, DetectsEveryDamageToItself) {
  ASSERT_OK(manifest_.Save(scratch_.path()));
  ForEachDamage(scratch_ / "manifest.json",
                [&](bool) { EXPECT_FALSE(Manifest::Load(scratch_.path()).ok()); });
}

TEST_F(ManifestTest, IsToldFromThatOfAnotherProgramEvenWhenDamaged) {
  EXPECT_FALSE(Manifest::IsIn(scratch_.path()));
  PutFile(scratch_ / "manifest.json", R"({"name": "a web page", "key": "x", "files": []})");
  EXPECT_FALSE(Manifest::IsIn(scratch_.path()));
  ASSERT_OK(manifest_.Save(scratch_.path()));
  EXPECT_TRUE(Manifest::IsIn(scratch_.path()));
  PutFile(scratch_ / "manifest.json", GetFile(scratch_ / "manifest.json") + "}");
  EXPECT_TRUE(Manifest::IsIn(scratch_.path()));
}

TEST_F(ManifestTest, RejectsNamesOutsideTheDirectory) {
  for (const char* name : {"", "/etc/passwd", "../x", "a/../../x", "a/", ".", "./a"}) {
    manifest_.files[0].name = name;
    EXPECT_FAILS(manifest_.Save(scratch_.path()), StatusCode::kInvalidArgument, "file name")
        << name;
  }
  manifest_.files[0].name = manifest_.files[1].name;
  EXPECT_FAILS(manifest_.Save(scratch_.path()), StatusCode::kInvalidArgument, "repeated file");
}

TEST_F(ManifestTest, RejectsTextThatIsNotUtf8) {
  manifest_.settings["name"] = "\xff";
  EXPECT_FAILS(manifest_.Save(scratch_.path()), StatusCode::kInvalidArgument, "UTF-8");
}

TEST_F(ManifestTest, ReportsAMissingOrMalformedManifest) {
  EXPECT_FAILS(Manifest::Load(scratch_.path()), StatusCode::kNotFound, "manifest.json");
  for (const char* text :
       {"", "[]", "null", "{\"version\": \"one\"}", "{\"version\": 1}", "\xff"}) {
    PutFile(scratch_ / "manifest.json", text);
    EXPECT_FAILS(Manifest::Load(scratch_.path()), StatusCode::kDataLoss, "manifest.json") << text;
  }
}

}  // namespace manifest_test
}  // namespace braid
