// Models of which only the most used experts are kept.
#include "inference/kept_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "inference/model_conversion.h"
#include "model/config/model_config.h"
#include "tests/base/status_matchers.h"
#include "tests/inference/converted_models.h"
#include "tests/inference/huggingface/exported_models.h"

namespace braid {
namespace kept_experts_test {

using model_conversion_test::Families;
using model_conversion_test::LogitDifference;
using model_conversion_test::Split;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(KeptExpertsTest, KeptExpertsAreTheMostUsedAndComputeWhatTheyDid) {
  for (const v1::ModelConfig& config : Families()) {
    const auto dense = RandomModel(config);
    ASSERT_OK_AND_ASSIGN(auto all,
                         SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::CONTIGUOUS, 4)));
    ExpertUse use;
    for (int layer = 0; layer < dense->config().num_layers(); ++layer) use[layer] = {5, 1, 9, 5};
    ASSERT_OK_AND_ASSIGN(auto kept, KeepExperts(*all.model, use, 2));
    EXPECT_THAT(kept.record.layers(0).experts(), ElementsAre(0, 2));  // the tie to the lowest
    EXPECT_EQ(kept.model->config().routing().num_experts(), 2);
    EXPECT_EQ(kept.model->config().d_ff(), dense->config().d_ff() / 2);
    // The same function as with the outputs of the others set to zero, and as their dense FFN.
    for (const Parameter& p : all.model->parameters()) {
      if (p.name.find("experts.down_proj") == std::string::npos) continue;
      const size_t expert = p.value.size() / 4;
      for (const size_t dropped : {1, 3}) {
        std::ranges::fill(p.value.subspan(dropped * expert, expert), 0.0f);
      }
    }
    EXPECT_LT(LogitDifference(*kept.model, *all.model), 1e-5);
    ASSERT_OK_AND_ASSIGN(const auto joined, JoinExperts(*kept.model, nullptr));
    EXPECT_LT(LogitDifference(*joined, *all.model), 1e-5);
  }
}

// Sets the experts of a model to zero, in their matrices for the output, but expert `left` of `n`.
void DropAllExpertsBut(size_t left, size_t n, LanguageModel& model) {
  for (const Parameter& p : model.parameters()) {
    if (p.name.find("experts.down_proj") == std::string::npos) continue;
    const size_t expert = p.value.size() / n;
    for (size_t e = 0; e < n; ++e) {
      if (e != left) std::ranges::fill(p.value.subspan(e * expert, expert), 0.0f);
    }
  }
}

TEST(KeptExpertsTest, OneExpertOfEachLayerIsADenseModelThatComputesWhatItDid) {
  for (const v1::ModelConfig& config : Families()) {
    const auto dense = RandomModel(config);
    ASSERT_OK_AND_ASSIGN(auto all, SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::RANDOM, 4)));
    ExpertUse use;
    for (int layer = 0; layer < dense->config().num_layers(); ++layer) use[layer] = {5, 1, 9, 9};
    ASSERT_OK_AND_ASSIGN(auto one, KeepOneExpert(*all.model, use));
    EXPECT_THAT(one.record.layers(1).experts(), ElementsAre(2));
    EXPECT_FALSE(UsesExperts(one.model->config()));
    EXPECT_EQ(one.model->config().d_ff(), dense->config().d_ff() / 4);
    DropAllExpertsBut(2, 4, *all.model);
    EXPECT_LT(LogitDifference(*one.model, *all.model), 1e-5);
  }
}

// The softmax of one chosen expert is 1. With copies, some layers may have none.
TEST(KeptExpertsTest, OneCopyOfEachLayerIsTheModelThatWasCopied) {
  for (const std::vector<int>& layers : {std::vector<int>{}, std::vector<int>{-1}}) {
    const auto dense = RandomModel(ExportedConfig(1));
    v1::ExpertSplit split = Split(3, v1::ExpertSplit::COPIES, 1);
    split.mutable_layers()->Assign(layers.begin(), layers.end());
    ASSERT_OK_AND_ASSIGN(auto copied, SplitIntoExperts(*dense, split));
    DropAllExpertsBut(1, 3, *copied.model);
    ExpertUse use;
    for (const int layer : MoeLayers(copied.model->config())) use[layer] = {2, 8, 3};
    ASSERT_OK_AND_ASSIGN(const auto one, KeepOneExpert(*copied.model, use));
    EXPECT_TRUE(std::ranges::equal(one.model->values(), dense->values()));
  }
}

TEST(KeptExpertsTest, OneExpertThatIsNoDenseModelIsRefused) {
  const auto dense = RandomModel(ExportedConfig(1));
  v1::ExpertSplit split = Split(4, v1::ExpertSplit::CONTIGUOUS, 2);
  split.add_layers(-1);
  ASSERT_OK_AND_ASSIGN(const auto last, SplitIntoExperts(*dense, split));
  EXPECT_FAILS(KeepOneExpert(*last.model, {}), absl::StatusCode::kInvalidArgument,
               "one expert of 6 hidden units", "dense layers of 24");
  v1::ModelConfig config = ExportedConfig(1);
  config.mutable_routing()->Clear();
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->set_num_experts(4);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RELU);
  const auto scored = RandomModel(ResolveModelConfig(config).value());
  EXPECT_FAILS(KeepOneExpert(*scored, {}), absl::StatusCode::kInvalidArgument, "SCORES");
}

TEST(KeptExpertsTest, ExpertsThatCannotBeKeptAreNamed) {
  const auto dense = RandomModel(ExportedConfig(1));
  EXPECT_THAT(KeepExperts(*dense, {}, 1).status().message(),
              HasSubstr("keep: the router is DENSE, expected TOKEN_CHOICE"));
  ASSERT_OK_AND_ASSIGN(auto all,
                       SplitIntoExperts(*dense, Split(4, v1::ExpertSplit::CONTIGUOUS, 4)));
  EXPECT_EQ(KeepExperts(*all.model, {}, 5).status().message(),
            "keep.num_experts: got 5, expected 2 to 4, the number of experts of the model");
  EXPECT_FAILS(KeepExperts(*all.model, {}, 1), absl::StatusCode::kInvalidArgument,
               "got 1, expected 2 to 4", "--dense");
  for (const int64_t none : {0, -1}) {
    EXPECT_FAILS(CountExpertUse(*all.model, "", "", none), absl::StatusCode::kInvalidArgument,
                 "keep.max_windows", "expected at least 1");
  }
}

}  // namespace kept_experts_test
}  // namespace braid
