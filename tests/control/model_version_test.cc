#include "control/model_version.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/base/scratch_directory.h"

namespace braid {
namespace model_version_test {

namespace fs = std::filesystem;

class ModelVersionTest : public testing::Test {
 protected:
  ModelVersionTest() { fs::create_directory(root_ / "checkpoints"); }
  void Touch(const fs::path& path) { PutFile(root_ / path, "x"); }
  void MakeCheckpoint(const std::string& name) {
    fs::create_directory(root_ / "checkpoints" / name);
  }

  const ScratchDirectory scratch_;
  const fs::path root_ = scratch_.path();
};

TEST_F(ModelVersionTest, VersionOfARunIsItsNewestCheckpoint) {
  Touch("run.textproto");
  EXPECT_EQ(ModelVersion(root_), "");
  MakeCheckpoint("step-00000090");
  EXPECT_EQ(ModelVersion(root_), "step-00000090");
  MakeCheckpoint("step-00000100");
  EXPECT_EQ(ModelVersion(root_), "step-00000100");
  MakeCheckpoint("step-100000000");
  EXPECT_EQ(ModelVersion(root_), "step-100000000");
  EXPECT_EQ(ModelVersion(root_.string() + "@ema"), "step-100000000");
}

TEST_F(ModelVersionTest, UnfinishedCheckpointDoesNotCount) {
  Touch("run.textproto");
  MakeCheckpoint("step-00000090");
  MakeCheckpoint("step-00000100.tmp");
  MakeCheckpoint("notes");
  EXPECT_EQ(ModelVersion(root_), "step-00000090");
}

TEST_F(ModelVersionTest, VersionOfACheckpointIsItsModificationTime) {
  EXPECT_EQ(ModelVersion(root_), "");
  Touch("manifest.json");
  const std::string first = ModelVersion(root_);
  EXPECT_NE(first, "");
  EXPECT_EQ(ModelVersion(root_), first);
  fs::last_write_time(root_ / "manifest.json",
                      fs::last_write_time(root_ / "manifest.json") + std::chrono::seconds(1));
  EXPECT_NE(ModelVersion(root_), first);
}

}  // namespace model_version_test
}  // namespace braid
