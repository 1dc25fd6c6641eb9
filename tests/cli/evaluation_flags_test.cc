#include "cli/evaluation_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/manifest.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace evaluation_flags_test {

using testing::HasSubstr;

std::string ErrorFor(const std::filesystem::path& path) {
  std::string text = path.string();
  return OutsideOfRecords()(text);
}

TEST(OutsideOfRecordsTest, RefusesFilesBelowRunsAndManifestsOfBraid) {
  ScratchDirectory scratch;
  ASSERT_OK(MakeDirectories(scratch / "run/heartbeat"));
  PutFile(scratch / "run/run.textproto", "");
  EXPECT_THAT(ErrorFor(scratch / "run/heartbeat/page"), HasSubstr("run.textproto"));
  ASSERT_OK(MakeDirectories(scratch / "dataset"));
  ASSERT_OK(Manifest{.kind = "dataset"}.Save(scratch / "dataset"));
  EXPECT_THAT(ErrorFor(scratch / "dataset/page"), HasSubstr("manifest.json"));
  EXPECT_EQ(ErrorFor(scratch / "dataset/page.html"), "");
}

TEST(OutsideOfRecordsTest, AcceptsFilesBelowTheManifestOfAnotherProgram) {
  ScratchDirectory scratch;
  ASSERT_OK(MakeDirectories(scratch / "site/reports"));
  PutFile(scratch / "site/manifest.json", R"({"name": "My site", "manifest_version": 3})");
  EXPECT_EQ(ErrorFor(scratch / "site/page"), "");
  EXPECT_EQ(ErrorFor(scratch / "site/reports/page"), "");
}

}  // namespace evaluation_flags_test
}  // namespace braid
