#include "inference/model_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "inference/huggingface/model_export.h"
#include "inference/weight_noise.h"
#include "model/config/expert_split_config.h"
#include "model/config/model_config.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/conversion_record.h"
#include "runs/run_directory.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/inference/converted_models.h"
#include "tests/inference/huggingface/exported_models.h"
#include "trainer/training_state.h"

namespace braid {
namespace model_conversion_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ModelConversionTest, JoiningWhatWasSplitGivesTheSameBytes) {
  for (const v1::ModelConfig& config : Families()) {
    const auto dense = RandomModel(config);
    for (const auto method :
         {v1::ExpertSplit::CONTIGUOUS, v1::ExpertSplit::RANDOM, v1::ExpertSplit::KEYS}) {
      ASSERT_OK_AND_ASSIGN(const auto split, SplitIntoExperts(*dense, Split(4, method, 2)));
      EXPECT_EQ(split.model->config().routing().num_experts(), 4);
      EXPECT_EQ(split.model->values().size(), dense->values().size()) << "no parameter is added";
      ASSERT_OK_AND_ASSIGN(const auto joined, JoinExperts(*split.model, &split.record));
      EXPECT_TRUE(std::ranges::equal(joined->values(), dense->values()));
    }
  }
}

TEST(ModelConversionTest, AllExpertsTogetherComputeTheDenseFunction) {
  for (const v1::ModelConfig& config : Families()) {
    const auto dense = RandomModel(config);
    for (const auto method : {v1::ExpertSplit::RANDOM, v1::ExpertSplit::KEYS}) {
      ASSERT_OK_AND_ASSIGN(const auto all, SplitIntoExperts(*dense, Split(4, method, 4)));
      EXPECT_LT(LogitDifference(*all.model, *dense), 1e-5);
      ASSERT_OK_AND_ASSIGN(const auto half, SplitIntoExperts(*dense, Split(4, method, 2)));
      EXPECT_GT(LogitDifference(*half.model, *dense), 1e-3) << "routing acts";
    }
  }
}

TEST(ModelConversionTest, TrainedExpertsJoinToWhatAllOfThemComputed) {
  for (const v1::ModelConfig& config : Families()) {
    const auto dense = RandomModel(config);
    ASSERT_OK_AND_ASSIGN(const auto split,
                         SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::RANDOM, 4)));
    for (float& value : split.model->values()) value += .01f * std::sin(1e4f * value);
    for (const v1::Conversion* record :
         {&split.record, static_cast<const v1::Conversion*>(nullptr)}) {
      ASSERT_OK_AND_ASSIGN(const auto joined, JoinExperts(*split.model, record));
      EXPECT_LT(LogitDifference(*joined, *split.model), 1e-5);
    }
  }
}

TEST(ModelConversionTest, CopiesComputeTheDenseFunctionWithAnyOfThem) {
  for (const v1::ModelConfig& config : Families()) {
    const auto dense = RandomModel(config);
    for (const int active : {1, 3}) {
      ASSERT_OK_AND_ASSIGN(const auto copied,
                           SplitIntoExperts(*dense, Split(3, v1::ExpertSplit::COPIES, active)));
      EXPECT_EQ(copied.model->config().routing().token().gate(), v1::TokenRouting::LINEAR);
      EXPECT_LT(LogitDifference(*copied.model, *dense), 1e-5);
    }
  }
}

// Copies have equal key means, so KEY_MEAN cannot choose among them.
TEST(ModelConversionTest, EveryGateButReluHasASplitThatAddsUpToTheDenseFunction) {
  const auto dense = RandomModel(ExportedConfig(1));
  for (int number = 1; number <= v1::TokenRouting::Gate_MAX; ++number) {
    const auto gate = static_cast<v1::TokenRouting::Gate>(number);
    SCOPED_TRACE(v1::TokenRouting::Gate_Name(gate));
    EXPECT_EQ(CanChooseAmongSplit(gate), gate != v1::TokenRouting::RELU);
    for (const auto method : {v1::ExpertSplit::KEYS, v1::ExpertSplit::COPIES}) {
      v1::ExpertSplit split = Split(4, method, 4);
      split.set_gate(gate);
      const auto experts = SplitIntoExperts(*dense, split);
      if (!CanChooseAmongSplit(gate)) {
        EXPECT_FAILS(experts.status(), absl::StatusCode::kInvalidArgument, "gate: got RELU",
                     "such as KEY_MEAN or LINEAR");
      } else if (gate == v1::TokenRouting::KEY_MEAN && method == v1::ExpertSplit::COPIES) {
        EXPECT_FAILS(experts.status(), absl::StatusCode::kInvalidArgument, "use LINEAR");
      } else {
        ASSERT_OK(experts.status());
        EXPECT_LT(LogitDifference(*experts->model, *dense), 1e-5);
      }
    }
  }
}

TEST(ModelConversionTest, LayersMayCountFromTheLast) {
  const auto dense = RandomModel(ExportedConfig(1));
  v1::ExpertSplit split = Split(4, v1::ExpertSplit::KEYS, 2);
  split.add_layers(-1);
  ASSERT_OK_AND_ASSIGN(const auto one, SplitIntoExperts(*dense, split));
  EXPECT_THAT(one.model->config().routing().moe_layers(),
              ElementsAre(dense->config().num_layers() - 1));
  ASSERT_OK_AND_ASSIGN(const auto joined, JoinExperts(*one.model, &one.record));
  EXPECT_TRUE(std::ranges::equal(joined->values(), dense->values()));
  const auto refused = [&](std::vector<int> layers) {
    split.mutable_layers()->Assign(layers.begin(), layers.end());
    return std::string(SplitIntoExperts(*dense, split).status().message());
  };
  EXPECT_THAT(refused({dense->config().num_layers()}), HasSubstr("expected"));
  EXPECT_THAT(refused({0, -dense->config().num_layers()}), HasSubstr("listed twice"));
}

TEST(ModelConversionTest, RefusesWhatIsNoSplitOfADenseModel) {
  const auto dense = RandomModel(ExportedConfig(1)), soft = RandomModel(ExportedConfig(4));
  EXPECT_TRUE(absl::IsInvalidArgument(
      SplitIntoExperts(*dense, Split(7, v1::ExpertSplit::KEYS, 2)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::KEYS, 5)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      SplitIntoExperts(*soft, Split(4, v1::ExpertSplit::KEYS, 2)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(JoinExperts(*dense, nullptr).status()));
  EXPECT_THAT(JoinExperts(*soft, nullptr).status().message(), HasSubstr("TOKEN_CHOICE"));
  ASSERT_OK_AND_ASSIGN(auto split, SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::KEYS, 2)));
  split.record.mutable_layers(0)->set_units(0, split.record.layers(0).units(1));
  EXPECT_TRUE(absl::IsDataLoss(JoinExperts(*split.model, &split.record).status()));
}

TEST(ModelConversionTest, KeysThatAreNotFiniteAreNamed) {
  const auto dense = RandomModel(ExportedConfig(1));  // 24 hidden units, width 16
  const std::string keys = "model.layers.1.mlp.gate_proj.weight";
  std::ranges::find(dense->parameters(), keys, &Parameter::name)->value[5 * 16 + 3] = NAN;
  EXPECT_FAILS(SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::KEYS, 2)),
               absl::StatusCode::kInvalidArgument,
               keys + ": point 5 of 24 has a value that is not finite", "other than KEYS");
  EXPECT_OK(SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::RANDOM, 2)));
}

TEST(ModelConversionTest, LayersThatMixKeepTheirFfns) {
  ScratchDirectory scratch;
  v1::ModelConfig config = ExportedConfig(1);
  config.mutable_layer_mixing()->set_alpha(0.9);
  const auto mixed = RandomModel(ResolveModelConfig(config).value());
  v1::ConvertRequest request;
  request.set_model(CheckpointOf(*mixed, scratch / "mixed").string());
  request.set_output_dir((scratch / "experts").string());
  *request.mutable_split() = Split(4, v1::ExpertSplit::KEYS, 2);
  EXPECT_THAT(Convert(request).status().message(),
              HasSubstr("model: got a model whose layers mix"));
}

TEST(ModelConversionTest, NumbersOfExpertsThatDoNotFitNameTheNearest) {
  const auto dense = RandomModel(ExportedConfig(1));  // 24 hidden units
  const auto refused = [&](int num_experts) {
    return std::string(
        SplitIntoExperts(*dense, Split(num_experts, v1::ExpertSplit::KEYS, 1)).status().message());
  };
  EXPECT_THAT(refused(7), HasSubstr("num_experts: got 7, expected a divisor of the 24 hidden units "
                                    "of an FFN; the nearest are 6 and 8"));
  EXPECT_THAT(refused(100), HasSubstr("the nearest is 24"));
  EXPECT_THAT(refused(0), HasSubstr("num_experts: got 0, expected at least 1"));
}

TEST(ModelConversionTest, SegmentsAreThoseOfTheDenseModel) {
  v1::ModelConfig dense = ExportedConfig(1);
  // The default, 256, divides only the last length.
  for (const auto& [length, segment] : {std::pair(40, 8), {300, 300}, {300, 50}, {512, 64}}) {
    dense.set_sequence_length(length);
    dense.mutable_routing()->set_segment_length(segment);
    const auto split = ExpertSplitConfig(dense, Split(4, v1::ExpertSplit::KEYS, 2));
    ASSERT_OK(split.status());
    EXPECT_EQ(split->routing().segment_length(), segment) << length;
  }
}

TEST(ModelConversionTest, OnlySlicesWithAGateThatIsNotTrainedBecomeDenseAgainAfterARun) {
  const v1::ModelConfig dense = ResolveModelConfig(ExportedConfig(1)).value();
  const auto outcome = [&](v1::ExpertSplit::Method method, v1::TokenRouting::Gate gate) {
    v1::ExpertSplit split = Split(4, method, 2);
    split.set_gate(gate);
    return CheckRecomposable(ExpertSplitConfig(dense, split).value());
  };
  EXPECT_OK(outcome(v1::ExpertSplit::KEYS, v1::TokenRouting::KEY_MEAN));
  EXPECT_OK(outcome(v1::ExpertSplit::CONTIGUOUS, v1::TokenRouting::FROZEN));
  EXPECT_FAILS(outcome(v1::ExpertSplit::KEYS, v1::TokenRouting::LINEAR),
               absl::StatusCode::kInvalidArgument, "gate LINEAR is trained", "--no-recompose");
  EXPECT_FAILS(outcome(v1::ExpertSplit::COPIES, v1::TokenRouting::LINEAR),
               absl::StatusCode::kInvalidArgument, "not slices", "--no-recompose");
  EXPECT_FAILS(CheckRecomposable(dense), absl::StatusCode::kInvalidArgument, "dense already");
}

TEST(ModelConversionTest, NoiseIsSeededAndLeavesVectorsAlone) {
  const auto noisy = [](double share, uint64_t seed) {
    auto model = RandomModel(ExportedConfig(1));
    v1::WeightNoise noise;
    noise.set_share(share);
    noise.set_seed(seed);
    EXPECT_OK(AddNoise(noise, *model));
    return model;
  };
  const auto plain = RandomModel(ExportedConfig(1));
  const auto one = noisy(.15, 1), again = noisy(.15, 1), other = noisy(.15, 2);
  EXPECT_TRUE(std::ranges::equal(one->values(), again->values()));
  for (size_t i = 0; i < plain->parameters().size(); ++i) {
    const std::span<const float> from = plain->parameters()[i].value;
    const std::span<const float> to = one->parameters()[i].value;
    const bool matrix = plain->parameters()[i].shape.size() > 1;
    EXPECT_EQ(std::ranges::equal(from, to), !matrix) << plain->parameters()[i].name;
    EXPECT_EQ(std::ranges::equal(to, other->parameters()[i].value), !matrix);
    if (!matrix) continue;
    // Uniform in (-a, a): the standard deviation is a / sqrt(3), where a = share / 2 deviations.
    double mean = 0, variance = 0, largest = 0, squares = 0;
    const auto n = static_cast<double>(from.size());
    for (const float value : from) mean += value / n;
    for (size_t k = 0; k < from.size(); ++k) {
      variance += (from[k] - mean) * (from[k] - mean) / (n - 1);
      squares += (to[k] - from[k]) * (to[k] - from[k]) / n;
      largest = std::max<double>(largest, std::abs(to[k] - from[k]));
    }
    const double bound = .15 / 2 * std::sqrt(variance);
    EXPECT_LE(largest, bound * (1 + 1e-4));
    EXPECT_GT(largest, .9 * bound);
    EXPECT_NEAR(std::sqrt(squares), bound / std::sqrt(3), .15 * bound);
  }
  v1::WeightNoise none;
  auto model = RandomModel(ExportedConfig(1));
  EXPECT_FAILS(AddNoise(none, *model), absl::StatusCode::kInvalidArgument, "noise.share: got 0");
}

TEST(ModelConversionTest, ConversionsRecordTheirNoise) {
  ScratchDirectory scratch;
  const auto dense = RandomModel(ExportedConfig(1));
  v1::ConvertRequest request;
  request.set_model(CheckpointOf(*dense, scratch / "dense").string());
  request.set_output_dir((scratch / "noisy").string());
  request.mutable_noise()->set_share(.15);
  request.mutable_noise()->set_seed(7);
  ASSERT_OK_AND_ASSIGN(const auto response, Convert(request));
  ASSERT_OK_AND_ASSIGN(const auto noisy, LoadModel(response.output_dir()));
  ASSERT_OK(AddNoise(request.noise(), *dense));
  EXPECT_TRUE(std::ranges::equal(noisy->values(), dense->values()));
  const std::string record = GetFile(scratch / "noisy" / "conversion.textproto");
  EXPECT_THAT(record, testing::AllOf(HasSubstr("share: 0.15"), HasSubstr("seed: 7")));
}

TEST(ModelConversionTest, AnotherModelInThePlaceOfTheSourceIsNoticed) {
  ScratchDirectory scratch;
  const auto dense = RandomModel(ExportedConfig(1));
  v1::ConvertRequest split, noise, join;
  split.set_model(CheckpointOf(*dense, scratch / "dense").string());
  split.set_output_dir((scratch / "experts").string());
  *split.mutable_split() = Split(4, v1::ExpertSplit::KEYS, 2);
  noise.set_model(split.output_dir());
  noise.set_output_dir((scratch / "noisy").string());
  noise.mutable_noise()->set_share(.1);
  ASSERT_OK(Convert(split).status());
  ASSERT_OK(Convert(noise).status());
  split.set_force(true);
  *split.mutable_split() = Split(4, v1::ExpertSplit::RANDOM, 2);
  ASSERT_OK(Convert(split).status());
  join.set_model(noise.output_dir());
  join.set_output_dir((scratch / "joined").string());
  join.set_dense(true);
  join.set_strict(true);
  EXPECT_FAILS(Convert(join), absl::StatusCode::kFailedPrecondition,
               "in a model that was replaced: ", "/experts has the key \"experts ");
  join.set_strict(false);
  ASSERT_OK_AND_ASSIGN(const auto joined, Convert(join));
  EXPECT_FALSE(joined.restored_order());
  ASSERT_EQ(joined.source().skipped_size(), 1);
  EXPECT_THAT(joined.source().skipped(0), HasSubstr("left in the order of the experts"));
}

// "cmp" finds no difference between a checkpoint and what comes back of it.
TEST(ModelConversionTest, ThereAndBackTheFileOfTheWeightsIsTheSameByteForByte) {
  for (const v1::ModelConfig& config : Families()) {
    ScratchDirectory scratch;
    const auto dense = RandomModel(config);
    const std::filesystem::path start = CheckpointOf(*dense, scratch / "dense");
    for (const auto method :
         {v1::ExpertSplit::CONTIGUOUS, v1::ExpertSplit::RANDOM, v1::ExpertSplit::KEYS}) {
      v1::ConvertRequest request;
      request.set_force(true);
      request.set_model(start.string());
      request.set_output_dir((scratch / "experts").string());
      *request.mutable_split() = Split(4, method, 2);
      request.mutable_split()->add_layers(1);
      ASSERT_OK(Convert(request).status());
      request.set_model((scratch / "experts").string());
      request.set_output_dir((scratch / "back").string());
      request.set_dense(true);
      ASSERT_OK(Convert(request).status());
      // A converted checkpoint is at step 0, like an imported one.
      std::string expected = GetFile(start / "model.safetensors");
      const size_t step = expected.find("\"step\":\"7\"");
      ASSERT_NE(step, std::string::npos);
      expected[step + 8] = '0';
      EXPECT_TRUE(GetFile(scratch / "back" / "model.safetensors") == expected);
    }
  }
}

TEST(ModelConversionTest, ConvertsCheckpointsThereAndBack) {
  ScratchDirectory scratch;
  const auto dense = RandomModel(ExportedConfig(1));
  const std::filesystem::path start = CheckpointOf(*dense, scratch / "dense");
  v1::ConvertRequest request;
  request.set_model(start.string());
  request.set_output_dir((scratch / "experts").string());
  *request.mutable_split() = Split(4, v1::ExpertSplit::KEYS, 2);
  ASSERT_OK_AND_ASSIGN(const auto split, Convert(request));
  EXPECT_EQ(split.model().routing().token().active_experts(), 2);
  EXPECT_OK(VerifyCheckpoint(split.output_dir()));
  EXPECT_GT(split.split_seconds(), 0);
  ASSERT_OK_AND_ASSIGN(const auto recorded, ReadConversion(split.output_dir()));
  ASSERT_TRUE(recorded.has_value());
  EXPECT_EQ(recorded->split_seconds(), split.split_seconds());
  EXPECT_EQ(recorded->source_key(), CheckpointKey(start).value());
  EXPECT_EQ(split.source_key(), recorded->source_key());
  EXPECT_EQ(split.join_seconds(), 0);
  EXPECT_FALSE(ReadConversion(start)->has_value()) << "no conversion made it";
  request.set_model(split.output_dir());
  request.set_output_dir((scratch / "joined").string());
  request.set_dense(true);
  ASSERT_OK_AND_ASSIGN(const auto joined, Convert(request));
  EXPECT_TRUE(joined.restored_order());
  EXPECT_GT(joined.join_seconds(), 0);
  ASSERT_OK_AND_ASSIGN(const auto restored, LoadModel(scratch / "joined"));
  EXPECT_TRUE(std::ranges::equal(restored->values(), dense->values()));

  // A run that was trained from the experts finds the places of the units, too.
  const RunDirectory run(scratch / "run");
  v1::RunSpec spec;
  spec.set_init_from(split.output_dir());
  ASSERT_OK(run.WriteSpec(spec));
  const std::filesystem::path checkpoint = CheckpointPath(run.checkpoints(), 1);
  std::filesystem::create_directories(checkpoint.parent_path());
  std::filesystem::copy(split.output_dir(), checkpoint, std::filesystem::copy_options::recursive);
  std::filesystem::remove(checkpoint / "conversion.textproto");
  request.set_model(run.root().string());
  request.set_output_dir((scratch / "tuned").string());
  ASSERT_OK_AND_ASSIGN(const auto tuned, Convert(request));
  EXPECT_TRUE(tuned.restored_order());
  EXPECT_THAT(tuned.source().skipped(), ElementsAre());
  // When they were in a model that is damaged, the result names it.
  const std::string state = GetFile(scratch / "experts" / "state.json");
  PutFile(scratch / "experts" / "state.json", "{}");
  request.set_output_dir((scratch / "warned").string());
  ASSERT_OK_AND_ASSIGN(const auto warned, Convert(request));
  EXPECT_FALSE(warned.restored_order());
  EXPECT_THAT(warned.source().skipped(),
              ElementsAre(testing::AllOf(HasSubstr("units were left in the order of the experts"),
                                         HasSubstr("state.json"))));
  request.set_output_dir((scratch / "strict").string());
  request.set_strict(true);
  EXPECT_FAILS(Convert(request), absl::StatusCode::kFailedPrecondition, "state.json");
  request.set_strict(false);
  PutFile(scratch / "experts" / "state.json", state);

  // A changed unit order is found.
  request.set_model(split.output_dir());
  const auto record = scratch / "experts" / "conversion.textproto";
  std::string text = GetFile(record);
  const size_t at = text.find("units: ") + 7;
  text[at] = text[at] == '1' ? '2' : '1';
  PutFile(record, text);
  request.set_force(true);
  EXPECT_TRUE(absl::IsDataLoss(Convert(request).status()));
}

}  // namespace model_conversion_test
}  // namespace braid
