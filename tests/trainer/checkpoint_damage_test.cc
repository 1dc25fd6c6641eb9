// Any damage to the bytes of a checkpoint is found and reported, and the previous checkpoint is
// used.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/file_error.h"
#include "gtest/gtest.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/checkpoint_agreement.h"
#include "trainer/checkpoint_writer.h"

namespace braid {
namespace checkpoint_damage_test {

namespace fs = std::filesystem;

// A small checkpoint by two ranks, and one before it.
class CheckpointDamageTest : public testing::Test {
 protected:
  CheckpointDamageTest() : root_(NewDirectory("damage")), checkpoints_(root_ / "checkpoints") {
    EXPECT_TRUE(WriteFileAtomically(root_ / "tokenizer.model", "token").ok());
    for (int64_t step : {1, 2}) {
      const auto save = [&](Communicator& ranks) { return Save(step, ranks); };
      for (const absl::Status& status : RunThreadedRanks(2, save)) {
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    newest_ = CheckpointPath(checkpoints_, 2);
    for (const auto& entry : fs::directory_iterator(newest_)) files_.push_back(entry.path());
  }

  absl::Status Save(int64_t step, Communicator& ranks) {
    CheckpointWriterSettings settings;
    settings.checkpoints = checkpoints_;
    settings.tokenizer = root_ / "tokenizer.model";
    settings.retention.keep_last = 2;
    settings.attempt = "x";
    std::vector<float> values = {1, 2, -3}, m = {0.5, 0.25, 1e-9}, v = {0, 1, 2};
    CheckpointSource source;
    source.state.step = step;
    source.state.dataset_key = "k";
    source.state.model.set_d_model(2);
    source.weights = {{"w", {3}, values}};
    source.moments = {{0, 3}, m, v};
    CheckpointWriter writer(&ranks, settings);
    const absl::Status status = writer.Start(source);
    return status.ok() ? writer.Finish() : status;
  }

  // Expects the warning to name the damaged file of the newest checkpoint.
  void ExpectNamed(const fs::path& file, const std::string& what) {
    const absl::Status status = VerifyCheckpoint(newest_);
    if (!status.ok() && absl::StrContains(status.message(), file.string())) return;
    ADD_FAILURE() << what << " of " << file << ": " << status;
  }

  void ExpectTheOneBefore() {
    std::vector<std::string> skipped;
    const auto found = NewestGoodCheckpoint(checkpoints_, &skipped);
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ(**found, CheckpointPath(checkpoints_, 1));
    ASSERT_EQ(skipped.size(), 1u);
    EXPECT_TRUE(absl::StrContains(skipped[0], "step-00000002 is damaged")) << skipped[0];
  }

  static void WriteByte(int descriptor, size_t at, char byte) {
    BRAID_CHECK(pwrite(descriptor, &byte, 1, static_cast<off_t>(at)) == 1) << at;
  }

  fs::path root_, checkpoints_, newest_;
  std::vector<fs::path> files_;
};

TEST_F(CheckpointDamageTest, EveryFlippedBitIsFoundAndItsFileNamed) {
  ASSERT_EQ(files_.size(), 9u);
  size_t num_flips = 0;
  for (const fs::path& file : files_) {
    const std::string bytes = *ReadFile(file);
    const int descriptor = open(file.c_str(), O_WRONLY);
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit, ++num_flips) {
      const size_t at = bit / 8;
      WriteByte(descriptor, at, static_cast<char>(bytes[at] ^ (1 << bit % 8)));
      ExpectNamed(file, absl::StrCat("bit ", bit));
      if (bit % 64 == 3) ExpectTheOneBefore();
      WriteByte(descriptor, at, bytes[at]);
    }
    close(descriptor);
  }
  EXPECT_GT(num_flips, 10000u);
  EXPECT_TRUE(VerifyCheckpoint(newest_).ok());
}

TEST_F(CheckpointDamageTest, TruncationAtEveryByteIsFoundAndItsFileNamed) {
  for (const fs::path& file : files_) {
    const std::string bytes = *ReadFile(file);
    for (size_t size = bytes.size(); size-- > 0;) {
      ASSERT_EQ(truncate(file.c_str(), static_cast<off_t>(size)), 0);
      ExpectNamed(file, absl::StrCat("end at ", size));
      if (size % 64 == 0) ExpectTheOneBefore();
    }
    ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
    ASSERT_TRUE(WriteFileAtomically(file, bytes + "x").ok());
    ExpectNamed(file, "a byte more");
    fs::remove(file);
    ExpectNamed(file, "absence");
    ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
  }
}

// Passing over a checkpoint that may be good would repeat its steps, and then remove it.
TEST_F(CheckpointDamageTest, AFileThatCannotBeReadIsAnErrorAndNotDamage) {
  const fs::path manifest = newest_ / "manifest.json";
  const std::string bytes = *ReadFile(manifest);
  fs::remove(manifest);
  fs::create_symlink("/proc/self/mem", manifest);  // reading its first byte is EIO
  std::vector<std::string> skipped;
  const auto found = NewestGoodCheckpoint(checkpoints_, &skipped);
  EXPECT_TRUE(IsSystemError(found.status())) << found.status();
  EXPECT_TRUE(skipped.empty());
  std::vector<absl::Status> agreed(2);
  (void)RunThreadedRanks(2, [&](Communicator& ranks) {
    std::ostringstream warnings;
    agreed[ranks.rank()] = AgreeOnNewestGoodCheckpoint(ranks, checkpoints_, warnings).status();
    return absl::OkStatus();
  });
  for (const absl::Status& status : agreed) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;  // a code that restarts the run
    EXPECT_TRUE(absl::StrContains(status.message(), manifest.string())) << status;
  }
  fs::remove(manifest);
  ASSERT_TRUE(WriteFileAtomically(manifest, bytes).ok());
  EXPECT_EQ(**NewestGoodCheckpoint(checkpoints_, &skipped), newest_);
  for (const int error : {EIO, EMFILE, ENFILE, ESTALE, EACCES}) {
    EXPECT_FALSE(IsCheckpointDamage(SystemError("open", manifest, error))) << error;
  }
  EXPECT_TRUE(IsCheckpointDamage(SystemError("open", manifest, ENOENT)));
}

}  // namespace checkpoint_damage_test
}  // namespace braid
