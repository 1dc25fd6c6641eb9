#include "inference/output_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "formats/manifest.h"
#include "inference/huggingface/exported_files.h"
#include "inference/replaceable_output.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace output_directory_test {

using absl::StatusCode;

absl::Status HasOurs(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / "marker")
             ? absl::OkStatus()
             : absl::FailedPreconditionError("not replaceable");
}

class OutputDirectoryTest : public testing::Test {
 protected:
  // Begins to write an output whose file "marker" has this text.
  std::unique_ptr<OutputDirectory> Begin(const std::string& text, bool force = false) {
    auto output = OutputDirectory::Create({scratch_ / "out", force, HasOurs});
    EXPECT_OK(output);
    if (!output.ok()) return nullptr;
    PutFile((*output)->staging() / "marker", text);
    return *std::move(output);
  }
  std::string Published() const { return GetFile(scratch_ / "out/marker"); }
  // Returns the number of files and directories beside the output.
  int64_t NumOthers() const {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
      count += entry.path().filename() != "out";
    }
    return count;
  }

  ScratchDirectory scratch_;
};

TEST_F(OutputDirectoryTest, KeepsDirectoriesOfTheUser) {
  for (const std::string name : {"out.tmp", "out.old.tmp"}) {
    std::filesystem::create_directory(scratch_ / name);
    PutFile(scratch_ / name / "mine", "precious");
  }
  for (const bool force : {false, true}) {
    const auto output = Begin(force ? "second" : "first", force);
    ASSERT_OK(output->Publish(output->staging()));
  }
  EXPECT_EQ(Published(), "second");
  EXPECT_EQ(GetFile(scratch_ / "out.tmp/mine"), "precious");
  EXPECT_EQ(GetFile(scratch_ / "out.old.tmp/mine"), "precious");
  EXPECT_EQ(NumOthers(), 2);
}

TEST_F(OutputDirectoryTest, LeavesTheFirstWholeResultOfTwoPrograms) {
  auto first = Begin("first"), second = Begin("second");
  ASSERT_OK(second->Publish(second->staging()));
  EXPECT_FAILS(first->Publish(first->staging()), StatusCode::kAlreadyExists, "out exists",
               "--force");
  first.reset();
  second.reset();
  EXPECT_EQ(Published(), "second");
  EXPECT_EQ(NumOthers(), 0);
}

TEST_F(OutputDirectoryTest, LeavesTheLastWholeResultOfTwoProgramsThatReplace) {
  auto first = Begin("first", /*force=*/true), second = Begin("second", /*force=*/true);
  ASSERT_OK(second->Publish(second->staging()));
  ASSERT_OK(first->Publish(first->staging()));
  first.reset();
  second.reset();
  EXPECT_EQ(Published(), "first");
  EXPECT_EQ(NumOthers(), 0);
}

// The check of Create() is repeated, since the work in between may take hours.
TEST_F(OutputDirectoryTest, KeepsWhatTheUserHasPutThereMeanwhile) {
  for (const bool force : {false, true}) {
    auto output = Begin("ours", force);
    std::filesystem::create_directory(scratch_ / "out");
    PutFile(scratch_ / "out/thesis", "precious");
    EXPECT_FALSE(output->Publish(output->staging()).ok());
    EXPECT_EQ(GetFile(scratch_ / "out/thesis"), "precious");
    std::filesystem::remove_all(scratch_ / "out");
  }
}

TEST_F(OutputDirectoryTest, PublishesADirectoryWithinTheStagingDirectory) {
  ASSERT_OK_AND_ASSIGN(auto output, OutputDirectory::Create({scratch_ / "a/out/", false, HasOurs}));
  std::filesystem::create_directory(output->staging() / "step");
  PutFile(output->staging() / "step/file", "content");
  ASSERT_OK(output->Publish(output->staging() / "step"));
  output.reset();
  EXPECT_EQ(GetFile(scratch_ / "a/out/file"), "content");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_ / "a"), {}), 1);
}

TEST_F(OutputDirectoryTest, RemovesTheParentsThatItCreatedUnlessItIsPublished) {
  std::filesystem::create_directory(scratch_ / "mine");
  ASSERT_OK_AND_ASSIGN(auto output,
                       OutputDirectory::Create({scratch_ / "mine/a/b/out", false, HasOurs}));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "mine/a/b"));
  output.reset();
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "mine"));
}

TEST_F(OutputDirectoryTest, RemovesTheParentsThatItCreatedBeforeOneFailed) {
  const std::string too_long(300, 'n');
  EXPECT_FALSE(OutputDirectory::Create({scratch_ / "a" / too_long / "out", false, HasOurs}).ok());
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(OutputDirectoryTest, KeepsParentsInWhichAnotherProgramWrites) {
  ASSERT_OK_AND_ASSIGN(auto failed, OutputDirectory::Create({scratch_ / "a/1", false, HasOurs}));
  ASSERT_OK_AND_ASSIGN(auto other, OutputDirectory::Create({scratch_ / "a/2", false, HasOurs}));
  failed.reset();
  ASSERT_OK(other->Publish(other->staging()));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "a/2"));
}

// A directory of files of the user must never be lost, nor the data of braid itself.
TEST(ReplaceableOutputTest, OnlyDirectoriesThatHoldNothingElse) {
  ScratchDirectory scratch;
  const std::filesystem::path made = scratch / "made";
  std::filesystem::create_directory(made);
  const auto write = [&](const std::string& kind) {
    PutFile(made / "model.safetensors", "weights");
    Manifest manifest{.kind = kind};
    manifest.files.push_back({.name = "model.safetensors", .bytes = 7});
    ASSERT_OK(manifest.Save(made));
  };
  write("checkpoint");
  EXPECT_OK(CheckHoldsOnlyACheckpoint(made));
  PutFile(made / "notes.txt", "mine");
  EXPECT_FAILS(CheckHoldsOnlyACheckpoint(made), StatusCode::kFailedPrecondition, "holds notes.txt");
  std::filesystem::remove(made / "notes.txt");
  std::filesystem::create_directory(made / "sub");
  EXPECT_FAILS(CheckHoldsOnlyACheckpoint(made), StatusCode::kFailedPrecondition, "holds sub");
  std::filesystem::remove(made / "sub");
  write("dataset");
  EXPECT_FAILS(CheckHoldsOnlyACheckpoint(made), StatusCode::kFailedPrecondition,
               "is not a checkpoint");
  PutFile(made / "manifest.json", R"({"name": "my app"})");
  EXPECT_FAILS(CheckHoldsOnlyACheckpoint(made), StatusCode::kFailedPrecondition,
               "is not a checkpoint");
}

TEST(ReplaceableOutputTest, NoCheckpointOfARun) {
  ScratchDirectory scratch;
  const std::filesystem::path step = scratch / "run/checkpoints/step-1";
  std::filesystem::create_directories(step);
  ASSERT_OK(Manifest{.kind = "checkpoint"}.Save(step));
  EXPECT_OK(CheckHoldsOnlyACheckpoint(step));
  PutFile(scratch / "run/run.textproto", "");
  EXPECT_FAILS(CheckHoldsOnlyACheckpoint(step), StatusCode::kFailedPrecondition,
               "is a checkpoint of the run");
}

TEST(ReplaceableOutputTest, OnlyExportsWithoutOtherFiles) {
  ScratchDirectory scratch;
  PutFile(scratch / "model-00001-of-00002.safetensors", "");
  EXPECT_FAILS(CheckHoldsOnlyAnExport(scratch.path()), StatusCode::kFailedPrecondition,
               "has no config.json");
  PutFile(scratch / "config.json", "{}");
  EXPECT_OK(CheckHoldsOnlyAnExport(scratch.path()));
  PutFile(scratch / "train.py", "mine");
  EXPECT_FAILS(CheckHoldsOnlyAnExport(scratch.path()), StatusCode::kFailedPrecondition,
               "holds train.py");
}

}  // namespace output_directory_test
}  // namespace braid
