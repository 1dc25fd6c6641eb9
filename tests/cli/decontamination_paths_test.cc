#include "cli/decontamination_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace decontamination_paths_test {

using ::testing::ElementsAre;

TEST(DecontaminationPathsTest, TasksAreTheExampleFilesOfTheBuiltInTasks) {
  const ScratchDirectory scratch;
  for (const char* folder : {"piqa", "sst2", "other"}) {
    std::filesystem::create_directories(scratch / folder);
  }
  for (const char* file : {"piqa/valid.jsonl", "piqa/valid-labels.lst", "piqa/train.jsonl",
                           "sst2/dev.tsv", "sst2/train.tsv", "other/test.jsonl"}) {
    PutFile(scratch / file, "fine\t1\n");
  }
  google::protobuf::RepeatedPtrField<std::string> paths;
  *paths.Add() = "/held/out.jsonl";
  *paths.Add() = absl::StrCat("tasks=", scratch.path().string());
  ASSERT_OK(ExpandTaskPaths(&paths));
  EXPECT_THAT(paths, ElementsAre("/held/out.jsonl", (scratch / "piqa/valid.jsonl").string(),
                                 (scratch / "sst2/dev.tsv").string()));
}

TEST(DecontaminationPathsTest, TasksAloneAreThoseOfTheUsualDirectory) {
  const auto transformed = [](std::string path) {
    EXPECT_EQ(DecontaminationPathValue()(path), "");
    return path;
  };
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(transformed("tasks"), absl::StrCat("tasks=", here, "/downstream"));
  EXPECT_EQ(transformed("tasks=x/../y"), absl::StrCat("tasks=", here, "/y"));
  EXPECT_EQ(transformed("x"), absl::StrCat(here, "/x"));
}

TEST(DecontaminationPathsTest, ADirectoryWithoutThemIsAnError) {
  const ScratchDirectory scratch;
  google::protobuf::RepeatedPtrField<std::string> paths;
  *paths.Add() = absl::StrCat("tasks=", scratch.path().string());
  EXPECT_FAILS(ExpandTaskPaths(&paths), absl::StatusCode::kNotFound, scratch.path().string(),
               "eval tasks --list");
}

}  // namespace decontamination_paths_test
}  // namespace braid
