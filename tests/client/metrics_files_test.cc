#include "client/metrics_files.h"

#include <gmock/gmock.h>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace metrics_files_test {

using testing::HasSubstr;

v1::ExportMetricsChunk Chunk(const std::string& name, const std::string& data) {
  v1::ExportMetricsChunk chunk;
  chunk.set_file_name(name);
  chunk.set_data(data);
  return chunk;
}

TEST(MetricsFilesTest, AssemblesFilesFromChunks) {
  const ScratchDirectory scratch;
  MetricsFiles files = MetricsFiles::Below(scratch.path());
  ASSERT_OK(files.Take(Chunk("run-1/a", "one ")));
  ASSERT_OK(files.Take(Chunk("", "two")));
  EXPECT_FALSE(std::filesystem::exists(scratch / "run-1/a")) << "half a file";
  ASSERT_OK(files.FinishRun());
  ASSERT_OK(files.Take(Chunk("run-2/a", "")));
  ASSERT_OK(files.FinishRun());
  EXPECT_EQ(GetFile(scratch / "run-1/a"), "one two");
  EXPECT_EQ(GetFile(scratch / "run-2/a"), "");
  ASSERT_EQ(files.written().size(), 2u);
  EXPECT_EQ(files.written()[0].path, scratch / "run-1/a");
  EXPECT_EQ(files.written()[0].bytes, 7);
}

TEST(MetricsFilesTest, WritesOneFileUnderTheRequestedName) {
  const ScratchDirectory scratch;
  MetricsFiles files = MetricsFiles::Into(scratch / "x.csv");
  ASSERT_OK(files.Take(Chunk("../../anything", "1,2")));
  ASSERT_OK(files.FinishRun());
  EXPECT_EQ(GetFile(scratch / "x.csv"), "1,2");
}

TEST(MetricsFilesTest, IncompleteExportKeepsTheOldFile) {
  const ScratchDirectory scratch;
  PutFile(scratch / "x.csv", "before");
  {
    MetricsFiles files = MetricsFiles::Into(scratch / "x.csv");
    ASSERT_OK(files.Take(Chunk("r/x.csv", "half")));
  }
  EXPECT_EQ(GetFile(scratch / "x.csv"), "before");
}

TEST(MetricsFilesTest, IncompleteExportLeavesNoDirectories) {
  const ScratchDirectory scratch;
  {
    MetricsFiles files = MetricsFiles::Below(scratch / "a/board");
    ASSERT_OK(files.Take(Chunk("run-1/a", "half")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  {
    MetricsFiles files = MetricsFiles::Below(scratch / "a/board");
    ASSERT_OK(files.Take(Chunk("run-1/a", "whole")));
    ASSERT_OK(files.FinishRun());
    ASSERT_OK(files.Take(Chunk("run-2/a", "half")));
  }
  EXPECT_EQ(GetFile(scratch / "a/board/run-1/a"), "whole");
  EXPECT_FALSE(std::filesystem::exists(scratch / "a/board/run-2"));
}

TEST(MetricsFilesTest, RejectsPathsOutsideTheDirectory) {
  for (const std::string name : {"", "a", "/etc/passwd", "../a", "a/..", "./a", "a/", "/a", "a/b/c",
                                 "a//b", "../../a", "a/../b"}) {
    EXPECT_EQ(PlaceOfFile("/board", name).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(PlaceOfFile("/board", std::string("a/b\0c", 5)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlaceOfFile("/board", "a/..b").value(), "/board/a/..b");
}

TEST(MetricsFilesTest, RejectsTwoRunsWithTheSameName) {
  const ScratchDirectory scratch;
  MetricsFiles files = MetricsFiles::Below(scratch.path());
  ASSERT_OK(files.Take(Chunk("run-1/a", "one")));
  ASSERT_OK(files.FinishRun());
  const absl::Status status = files.Take(Chunk("run-1/a", "other"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("two runs"));
  EXPECT_EQ(GetFile(scratch / "run-1/a"), "one");
}

}  // namespace metrics_files_test
}  // namespace braid
