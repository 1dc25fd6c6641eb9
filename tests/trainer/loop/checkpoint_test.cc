#include "trainer/checkpoint.h"

#include <fstream>
#include <sstream>

#include "formats/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trainer/loop/tiny_run.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                  "model.textproto",   "tokenizer.model",       "manifest.json"};

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : root_(NewDirectory("checkpoint")), checkpoints_(root_ / "checkpoints") {
    EXPECT_TRUE(WriteFileAtomically(root_ / "tokenizer.model", "tokens").ok());
  }

  std::vector<CheckpointTensor> Tensors(std::vector<float>* values) {
    values->resize(30);
    const std::span<float> all(*values);
    return {{"a", {2, 3}, all.subspan(0, 6), all.subspan(6, 6), all.subspan(12, 6)},
            {"b", {4}, all.subspan(18, 4), all.subspan(22, 4), all.subspan(26, 4)}};
  }

  void Save(int64_t step) {
    std::vector<float> values;
    auto tensors = Tensors(&values);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 100 * step);
    CheckpointState state;
    state.step = step;
    state.num_tokens = 1000 * step;
    state.upcycled = step > 5;
    state.dataset_key = "k";
    state.model.set_d_model(16);
    const absl::Status status =
        WriteCheckpoint(checkpoints_, state, tensors, root_ / "tokenizer.model");
    ASSERT_TRUE(status.ok()) << status;
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string Newest(std::string* warnings = nullptr) {
    std::ostringstream stream;
    const auto newest = NewestGoodCheckpoint(checkpoints_, stream);
    if (warnings != nullptr) *warnings = stream.str();
    if (!newest.ok()) return std::string(newest.status().message());
    return newest->has_value() ? (*newest)->filename().string() : "none";
  }

  void Flip(const fs::path& path, size_t at) {
    std::string bytes = *ReadFile(path);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    std::ofstream(path, std::ios::binary) << bytes;
  }

  fs::path root_;
  fs::path checkpoints_;
};

TEST_F(CheckpointTest, ReadsBackWhatWasWritten) {
  Save(7);
  const fs::path path = CheckpointPath(checkpoints_, 7);
  EXPECT_EQ(path.filename(), "step-00000007");
  EXPECT_TRUE(VerifyCheckpoint(path).ok());
  const auto state = ReadCheckpointState(path);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 7);
  EXPECT_EQ(state->num_tokens, 7000);
  EXPECT_TRUE(state->upcycled);
  EXPECT_EQ(state->dataset_key, "k");
  EXPECT_EQ(state->model.d_model(), 16);
  std::vector<float> values;
  const auto tensors = Tensors(&values);
  ASSERT_TRUE(ReadCheckpointTensors(path, Moments::kRead, tensors).ok());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i + 700));
  EXPECT_EQ(*ReadFile(path / "tokenizer.model"), "tokens");
}

TEST_F(CheckpointTest, SkipsMomentsWhenAsked) {
  Save(7);
  std::vector<float> values;
  const auto tensors = Tensors(&values);
  const fs::path path = CheckpointPath(checkpoints_, 7);
  ASSERT_TRUE(ReadCheckpointTensors(path, Moments::kSkip, tensors).ok());
  EXPECT_EQ(tensors[1].value[0], 718);
  EXPECT_EQ(tensors[1].m[0], 0);
}

TEST_F(CheckpointTest, NamesATensorOfAnotherShape) {
  Save(7);
  std::vector<float> values;
  auto tensors = Tensors(&values);
  tensors[0].shape = {3, 2};
  const absl::Status status =
      ReadCheckpointTensors(CheckpointPath(checkpoints_, 7), Moments::kRead, tensors);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another shape for tensor a"));
}

TEST_F(CheckpointTest, NewestIsByNumber) {
  EXPECT_EQ(Newest(), "none");
  for (int64_t step : {9, 10, 100000000}) Save(step);
  EXPECT_EQ(Newest(), "step-100000000");
}

TEST_F(CheckpointTest, IgnoresHalfWrittenOnes) {
  Save(3);
  fs::create_directories(checkpoints_ / "step-00000009.tmp");
  fs::create_directories(checkpoints_ / "step-abc");
  std::string warnings;
  EXPECT_EQ(Newest(&warnings), "step-00000003");
  EXPECT_EQ(warnings, "");
}

TEST_F(CheckpointTest, FindsAFlippedBitAnywhereInAnyFile) {
  Save(3);
  Save(4);
  for (const char* file : kFiles) {
    const fs::path path = CheckpointPath(checkpoints_, 4) / file;
    const size_t size = fs::file_size(path);
    for (size_t at : {size_t{0}, size / 3, size / 2, size - 1}) {
      Flip(path, at);
      std::string warnings;
      EXPECT_EQ(Newest(&warnings), "step-00000003") << file << " at " << at;
      EXPECT_THAT(warnings, HasSubstr("step-00000004")) << file;
      EXPECT_THAT(warnings, HasSubstr(file));
      Flip(path, at);
    }
  }
  EXPECT_EQ(Newest(), "step-00000004");
}

TEST_F(CheckpointTest, FindsAMissingOrShortFile) {
  Save(3);
  for (const char* file : kFiles) {
    Save(4);
    fs::remove(CheckpointPath(checkpoints_, 4) / file);
    EXPECT_EQ(Newest(), "step-00000003") << file;
    Save(4);
    const fs::path path = CheckpointPath(checkpoints_, 4) / file;
    fs::resize_file(path, fs::file_size(path) - 2);
    EXPECT_EQ(Newest(), "step-00000003") << file;
  }
}

TEST_F(CheckpointTest, SaysWhenNoneIsGood) {
  for (int64_t step : {3, 4}) {
    Save(step);
    Flip(CheckpointPath(checkpoints_, step) / "model.safetensors", 40);
  }
  EXPECT_THAT(Newest(), HasSubstr("none of the 2 checkpoints"));
}

TEST_F(CheckpointTest, ReplacesADamagedOneOfTheSameStep) {
  Save(4);
  Flip(CheckpointPath(checkpoints_, 4) / "model.safetensors", 40);
  Save(4);
  EXPECT_EQ(Newest(), "step-00000004");
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000004"));
}

TEST_F(CheckpointTest, RotationKeepsTheNewestAndClearsLeftovers) {
  for (int64_t step : {1, 2, 3, 4}) Save(step);
  fs::create_directories(checkpoints_ / "step-00000009.tmp" / "x");
  ASSERT_TRUE(RotateCheckpoints(checkpoints_, 4, 2).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000003", "step-00000004"));
}

// A later one that is damaged must not push out the one just written.
TEST_F(CheckpointTest, RotationRemovesLaterOnesThatWerePassedOver) {
  for (int64_t step : {10, 25, 20}) Save(step);
  ASSERT_TRUE(RotateCheckpoints(checkpoints_, 20, 1).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000020"));
}

TEST_F(CheckpointTest, LeavesNothingOfAFailedAttempt) {
  CheckpointState state;
  state.step = 4;
  std::vector<float> values;
  const absl::Status status =
      WriteCheckpoint(checkpoints_, state, Tensors(&values), root_ / "missing.model");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Names(), testing::IsEmpty());
}

}  // namespace
}  // namespace braid
