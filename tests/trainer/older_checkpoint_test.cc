// Checkpoints with no more than the fields of the first version of the format.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/manifest.h"
#include "nlohmann/json.hpp"
#include "runs/checkpoint.h"
#include "runs/model_path.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace older_checkpoint_test {

namespace fs = std::filesystem;

// The model of TinySpec.
constexpr char kModel[] = R"(
num_layers: 2
d_model: 16
num_heads: 2
d_ff: 32
vocab_size: 64
sequence_length: 32
rope_theta: 10000
norm_epsilon: 1e-05
initialization: FAN_IN
routing {
  router: CAUSAL_SEGMENT
  num_experts: 4
  segment_length: 8
  first_segment: SELF_STOP_GRADIENT
  router_input: NORMALIZED_MEAN
  router_init_std: 0.06
}
)";

// Returns state.json with the fields that every version has written.
std::string FirstState(const std::string& text) {
  const nlohmann::json state = nlohmann::json::parse(text);
  nlohmann::json first;
  for (const char* field : {"step", "num_tokens", "upcycled", "world_size", "dataset_key"}) {
    first[field] = state.at(field);
  }
  return first.dump(2) + "\n";
}

void MakeOlder(const fs::path& checkpoint) {
  ASSERT_OK_AND_ASSIGN(const std::string state, ReadFile(checkpoint / kStateFile));
  const std::map<std::string, std::string> texts = {{kStateFile, FirstState(state)},
                                                    {kConfigFile, kModel}};
  ASSERT_OK_AND_ASSIGN(Manifest manifest, Manifest::Load(checkpoint));
  for (ManifestEntry& entry : manifest.files) {
    const auto text = texts.find(entry.name);
    if (text == texts.end()) continue;
    ASSERT_OK_AND_ASSIGN(
        entry, WriteFileForManifest(checkpoint / entry.name, text->second, entry.records));
  }
  ASSERT_OK(manifest.Save(checkpoint));
}

TEST(OlderCheckpointTest, LoadsAndResumesToTheSameBits) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const v1::RunSpec spec = TinySpec(dataset, 8);
  const RunDirectory whole(NewDirectory("run")), run(NewDirectory("run"));
  ASSERT_EQ(TrainAlone(whole, spec).value(), TrainingOutcome::kComplete);
  ASSERT_OK(run.WriteSpec(spec));
  ASSERT_EQ(TrainAlone(run, spec, 5).value(), TrainingOutcome::kInterrupted);
  const fs::path checkpoint = FindModel(run.root(), /*strict=*/true)->checkpoint;
  const auto before = LoadModel(checkpoint).value();
  MakeOlder(checkpoint);
  ASSERT_OK_AND_ASSIGN(const auto after, LoadModel(checkpoint));
  EXPECT_TRUE(std::ranges::equal(after->values(), before->values()));
  ASSERT_EQ(TrainAlone(run, spec).value(), TrainingOutcome::kComplete);
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
}

}  // namespace older_checkpoint_test
}  // namespace braid
