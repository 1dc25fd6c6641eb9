#include "runs/checkpoint.h"

#include <fstream>
#include <numeric>
#include <sstream>

#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/splitmix.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runs/checkpoint_directory.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/checkpoint_writer.h"

namespace braid {
namespace checkpoint_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                  "model.textproto",   "tokenizer.model",       "manifest.json"};

// Three tensors; all elements, including those of their moments, are different.
struct Values {
  explicit Values(float first = 0) : weights(kSize), m(kSize), v(kSize) {
    std::iota(weights.begin(), weights.end(), first);
    std::iota(m.begin(), m.end(), first + 1000);
    std::iota(v.begin(), v.end(), first + 2000);
  }

  std::vector<CheckpointTensor> Tensors() {
    const std::span<float> all(weights);
    return {{"a", {2, 3}, all.subspan(0, 6)},
            {"b", {40}, all.subspan(6, 40)},
            {"c", {5, 5}, all.subspan(46)}};
  }

  CheckpointMoments Moments(Shard range) {
    return {range, std::span(m).subspan(range.begin, range.size()),
            std::span(v).subspan(range.begin, range.size())};
  }

  static constexpr size_t kSize = 71;
  std::vector<float> weights, m, v;
};

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : root_(NewDirectory("checkpoint")), checkpoints_(root_ / "checkpoints") {
    EXPECT_TRUE(WriteFileAtomically(root_ / "tokenizer.model", "tokens").ok());
  }

  // Returns what rank `rank` of `world_size` saves; it holds only its own moments.
  CheckpointSource Source(int64_t step, Values* values, int rank, int world_size) {
    CheckpointSource source;
    source.state.step = step;
    source.state.num_tokens = 1000 * step;
    source.state.upcycled = step > 5;
    source.state.dataset_key = "k";
    source.state.model.set_d_model(16);
    source.weights = values->Tensors();
    source.moments = values->Moments(ShardOf(Values::kSize, rank, world_size));
    return source;
  }

  absl::Status TrySave(int64_t step, Communicator& ranks) {
    CheckpointWriterSettings settings;
    settings.checkpoints = checkpoints_;
    settings.tokenizer = root_ / "tokenizer.model";
    settings.retention.keep_last = keep_last_;
    settings.before_rotate = [this] { return before_rotate_; };
    settings.attempt = "x";
    CheckpointWriter writer(&ranks, settings);
    Values values(static_cast<float>(100 * step));
    const absl::Status status =
        writer.Start(Source(step, &values, ranks.rank(), ranks.world_size()));
    return status.ok() ? writer.Finish() : status;
  }

  void Save(int64_t step, int world_size = 1) {
    const auto save = [&](Communicator& ranks) { return TrySave(step, ranks); };
    for (const absl::Status& status : RunThreadedRanks(world_size, save)) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  int keep_last_ = 100;
  absl::Status before_rotate_;

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string Newest(std::string* warnings = nullptr) {
    std::vector<std::string> skipped;
    const auto newest = NewestGoodCheckpoint(checkpoints_, &skipped);
    if (warnings != nullptr) *warnings = absl::StrJoin(skipped, "\n");
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
  EXPECT_EQ(state->world_size, 1);
  EXPECT_EQ(state->dataset_key, "k");
  EXPECT_EQ(state->model.d_model(), 16);
  EXPECT_EQ(*ReadFile(path / "tokenizer.model"), "tokens");
}

// Written by W ranks and read by R ranks, each of which reads only its own moments.
TEST_F(CheckpointTest, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  const Values expected(300);
  for (int writers : {1, 2, 3, 4, 7}) {
    Save(3, writers);
    const fs::path path = CheckpointPath(checkpoints_, 3);
    const auto state = *ReadCheckpointState(path);
    EXPECT_EQ(state.world_size, writers);
    Values read(0);
    ASSERT_TRUE(ReadWeights(path, state, read.Tensors()).ok());
    EXPECT_EQ(read.weights, expected.weights);
    for (int readers : {1, 2, 3, 4}) {
      Values moments(0);
      for (int r = 0; r < readers; ++r) {
        const auto wanted = moments.Moments(ShardOf(Values::kSize, r, readers));
        const absl::Status status = ReadMoments(path, state, moments.Tensors(), wanted);
        ASSERT_TRUE(status.ok()) << status;
      }
      EXPECT_EQ(moments.m, expected.m) << writers << " to " << readers;
      EXPECT_EQ(moments.v, expected.v) << writers << " to " << readers;
    }
  }
}

TEST_F(CheckpointTest, RanksDivideWeightsAndMoments) {
  Save(3, 2);
  const fs::path path = CheckpointPath(checkpoints_, 3);
  const auto manifest = *Manifest::Load(path);
  std::vector<std::string> names;
  for (const ManifestEntry& entry : manifest.files) names.push_back(entry.name);
  EXPECT_THAT(names, testing::ElementsAre(
                         "model-00001-of-00002.safetensors", "optimizer-00001-of-00002.safetensors",
                         "model-00002-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
                         "model.safetensors.index.json", "state.json", "model.textproto",
                         "tokenizer.model"));
  // b is the largest; c and a together weigh less.
  const auto index = nlohmann::json::parse(*ReadFile(path / "model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"], nlohmann::json({{"a", "model-00002-of-00002.safetensors"},
                                                 {"b", "model-00001-of-00002.safetensors"},
                                                 {"c", "model-00002-of-00002.safetensors"}}));
  EXPECT_EQ(index["metadata"]["total_size"], 71 * 4);
  const auto second = *SafetensorsFile::Open(path / "optimizer-00002-of-00002.safetensors");
  EXPECT_EQ(second.metadata().at("begin"), "48");
  EXPECT_EQ(second.metadata().at("end"), "71");
  EXPECT_EQ(second.Float("m")->front(), 1348);
}

TEST_F(CheckpointTest, DividesTensorsEvenly) {
  Values values;
  std::vector<CheckpointTensor> tensors;
  uint64_t total = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    const size_t size = Mix64(5, i) % 71;
    total += size;
    tensors.push_back({std::to_string(i), {}, std::span(values.weights).first(size)});
  }
  for (int world_size : {1, 2, 3, 8}) {
    const std::vector<int> ranks = DivideTensors(tensors, world_size);
    std::vector<uint64_t> load(world_size);
    for (size_t i = 0; i < tensors.size(); ++i) load.at(ranks[i]) += tensors[i].value.size();
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), uint64_t{0}), total);
    EXPECT_LE(*std::max_element(load.begin(), load.end()) * world_size, total * 4 / 3 + 71);
  }
}

TEST_F(CheckpointTest, NamesATensorOfAnotherShape) {
  Save(7);
  Values values;
  auto tensors = values.Tensors();
  tensors[0].shape = {3, 2};
  const fs::path path = CheckpointPath(checkpoints_, 7);
  const auto state = *ReadCheckpointState(path);
  const absl::Status weights = ReadWeights(path, state, tensors);
  EXPECT_EQ(weights.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(weights.message()), HasSubstr("another shape for tensor a"));
  tensors = values.Tensors();
  tensors[1].name = "d";
  EXPECT_THAT(std::string(ReadWeights(path, state, tensors).message()),
              HasSubstr("lacks tensor d"));
}

// Without the layout fingerprint, tensors in another order with the same number of elements would
// be read without an error.
TEST_F(CheckpointTest, RefusesMomentsOfOtherTensors) {
  Save(7);
  Values values;
  auto tensors = values.Tensors();
  std::swap(tensors[0], tensors[2]);
  const fs::path path = CheckpointPath(checkpoints_, 7);
  const absl::Status status = ReadMoments(path, *ReadCheckpointState(path), tensors,
                                          values.Moments(ShardOf(Values::kSize, 0, 2)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("written for other tensors"));
}

TEST_F(CheckpointTest, NewestIsByNumber) {
  EXPECT_EQ(Newest(), "none");
  for (int64_t step : {9, 10, 100000000}) Save(step);
  EXPECT_EQ(Newest(), "step-100000000");
}

TEST_F(CheckpointTest, IgnoresIncompleteCheckpoints) {
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
      EXPECT_EQ(warnings.find("step-00000004"), warnings.rfind("step-00000004")) << warnings;
      EXPECT_THAT(warnings, Not(HasSubstr("generate it again"))) << "a checkpoint cannot be";
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

TEST_F(CheckpointTest, NoGoodCheckpointIsAnError) {
  for (int64_t step : {3, 4}) {
    Save(step);
    Flip(CheckpointPath(checkpoints_, step) / "model.safetensors", 40);
  }
  EXPECT_THAT(Newest(), HasSubstr("is good (2 damaged)"));
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
  fs::create_directories(checkpoints_ / "step-00000009.0f.tmp" / "x");
  ASSERT_TRUE(RemoveLeftovers(checkpoints_).ok());
  ASSERT_TRUE(RotateCheckpoints(checkpoints_, 4, {.keep_last = 2}).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000003", "step-00000004"));
}

// The best, the branch points and the newest regular one stay, however old they are.
TEST_F(CheckpointTest, RotationKeepsBestRegularAndBranchPoints) {
  for (int64_t step : {10, 13, 20, 21, 22, 23}) Save(step);
  ASSERT_TRUE(RotateCheckpoints(
                  checkpoints_, 23,
                  {.keep_last = 1, .keep_every_steps = 20, .regular_steps = 11, .best_step = 13})
                  .ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000013", "step-00000020", "step-00000022",
                                            "step-00000023"));
}

// A branch goes back to its first checkpoint until it has a newer regular one.
TEST_F(CheckpointTest, RotationKeepsTheFirstOfABranchUntilANewerRegularOne) {
  const CheckpointRetention retention = {.keep_last = 1, .regular_steps = 100, .branch_step = 530};
  for (int64_t step : {530, 540, 550}) Save(step);
  ASSERT_TRUE(RotateCheckpoints(checkpoints_, 550, retention).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000530", "step-00000550"));
  Save(600);
  ASSERT_TRUE(RotateCheckpoints(checkpoints_, 600, retention).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000600"));
}

// A later checkpoint neither replaces the one just written nor is removed: a superseded rank may
// write while another attempt is further ahead.
TEST_F(CheckpointTest, RotationKeepsLaterCheckpoints) {
  for (int64_t step : {10, 15, 25, 20}) Save(step);
  ASSERT_TRUE(RotateCheckpoints(checkpoints_, 20, {.keep_last = 2}).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000015", "step-00000020", "step-00000025"));
  ASSERT_TRUE(RemoveLaterCheckpoints(checkpoints_, 15).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000015"));
}

// Another attempt may begin between publishing and rotating.
TEST_F(CheckpointTest, RotatesOnlyWhatItOwns) {
  for (int64_t step : {10, 15}) Save(step);
  keep_last_ = 1;
  before_rotate_ = absl::AbortedError("another attempt");
  SingleProcess alone;
  EXPECT_TRUE(absl::IsAborted(TrySave(20, alone)));
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000010", "step-00000015", "step-00000020"));
}

// A rank that cannot write fails all ranks, whichever rank it is.
TEST_F(CheckpointTest, LeavesNothingOfAFailedAttempt) {
  Save(2);
  fs::remove(root_ / "tokenizer.model");
  const auto save = [&](Communicator& ranks) { return TrySave(4, ranks); };
  for (const absl::Status& status : RunThreadedRanks(3, save)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer.model"));
  }
  EXPECT_THAT(Names(), testing::ElementsAre("step-00000002"));
}

// Patience counts validations whose loss is not a number, also before the first one with a number.
TEST_F(CheckpointTest, KeepsTheCountOfValidationsWithoutANumber) {
  SingleProcess alone;
  CheckpointWriterSettings settings;
  settings.checkpoints = checkpoints_;
  settings.tokenizer = root_ / "tokenizer.model";
  settings.attempt = "x";
  CheckpointWriter writer(&alone, settings);
  Values values;
  CheckpointSource source = Source(4, &values, 0, 1);
  source.state.validation.num_worse = 1;
  ASSERT_TRUE(writer.Start(source).ok() && writer.Finish().ok());
  const auto state = ReadCheckpointState(CheckpointPath(checkpoints_, 4));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->validation.num_worse, 1);
}

TEST(StoredPartialTest, BasesInTheSameHomeAreRelative) {
  v1::PartialCheckpoint partial;
  const auto stored = [&](const std::string& base, const std::string& directory) {
    partial.mutable_base()->set_checkpoint(base);
    return StoredPartial(partial, directory).base().checkpoint();
  };
  EXPECT_EQ(stored("/h/runs/run-1/checkpoints/step-2", "/h/runs/run-2/checkpoints/step-9.tmp"),
            "../../../run-1/checkpoints/step-2");
  EXPECT_EQ(stored("/h/supervised/converted-1", "/h/runs/run-2/checkpoints/step-9"),
            "../../../../supervised/converted-1");
  EXPECT_EQ(stored("/models/base", "/h/runs/run-2/checkpoints/step-9"), "/models/base");
  EXPECT_EQ(stored("/h/runs/run-1/checkpoints/step-2", "/h/imported"),
            "/h/runs/run-1/checkpoints/step-2");
}

}  // namespace checkpoint_test
}  // namespace braid
