#include "model/upcycling.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace upcycling_test {

TEST(UpcyclingTest, LossAfterEqualsLossBefore) {
  std::mt19937 random(31);
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto inputs = RandomTokens(2 * 24, 50, &random),
             targets = RandomTokens(2 * 24, 50, &random);
  const TrainResult before = dense->ForwardBackward(inputs, targets, 2, 1, false).value();
  const auto tokens = static_cast<double>(before.num_tokens);
  for (const std::vector<int>& layers : {std::vector<int>{}, {0}, {1}}) {
    for (const v1::Router router : {v1::CAUSAL_SEGMENT, v1::PREFIX}) {
      const auto experts = Upcycle(*dense, SmallModelConfig(4, router, layers), 3).value();
      const TrainResult after = experts->ForwardBackward(inputs, targets, 2, 1, true).value();
      EXPECT_NEAR(after.loss_sum / tokens, before.loss_sum / tokens, 1e-5);
      EXPECT_EQ(after.routing.size(), layers.empty() ? 2u : 1u);
    }
  }
}

TEST(UpcyclingTest, GroupedQueryModelsKeepTheirLoss) {
  std::mt19937 random(32);
  const auto inputs = RandomTokens(2 * 24, 50, &random),
             targets = RandomTokens(2 * 24, 50, &random);
  const std::vector<v1::ModelConfig> dense = GroupedModelConfigs(1), moe = GroupedModelConfigs(4);
  for (size_t i = 0; i < dense.size(); ++i) {
    const auto before = SharpModel(dense[i], 3);
    const auto after = Upcycle(*before, moe[i], 4).value();
    const double tokens = 2 * 24;
    EXPECT_NEAR(after->ForwardBackward(inputs, targets, 2, 1, false)->loss_sum / tokens,
                before->ForwardBackward(inputs, targets, 2, 1, false)->loss_sum / tokens, 1e-5)
        << moe[i].ShortDebugString();
  }
  EXPECT_FALSE(Upcycle(*SharpModel(dense[0], 3), moe[1], 4).ok());
}

// Expert choice scales outputs by scores, so the function changes.
TEST(UpcyclingTest, ExpertChoiceStartsFromCopiesToo) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto experts = Upcycle(*dense, SmallModelConfig(4, v1::EXPERT_CHOICE_TOKEN), 3).value();
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(*dense, *experts);
  for (size_t i = 0; i < origins.size(); ++i) {
    if (origins[i].dense_parameter < 0) continue;
    const std::span<float> source = dense->parameters()[origins[i].dense_parameter].value;
    const std::span<float> copies = experts->parameters()[i].value;
    for (size_t j = 0; j < copies.size(); ++j) ASSERT_EQ(copies[j], source[j % source.size()]);
  }
}

// Why moments carry over as m/E: the experts' gradients add up to the gradient of the dense matrix,
// and shared gradients are unchanged.
TEST(UpcyclingTest, ExpertGradientsAddUpToTheDenseGradient) {
  std::mt19937 random(32);
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 4).value();
  const auto experts = Upcycle(*dense, SmallModelConfig(4), 4).value();
  const auto inputs = RandomTokens(24, 50, &random), targets = RandomTokens(24, 50, &random);
  ASSERT_TRUE(dense->ForwardBackward(inputs, targets, 1, 1, false).ok());
  ASSERT_TRUE(experts->ForwardBackward(inputs, targets, 1, 1, false).ok());
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(*dense, *experts);
  for (size_t i = 0; i < origins.size(); ++i) {
    if (origins[i].dense_parameter < 0) continue;
    const std::span<float> expected = dense->parameters()[origins[i].dense_parameter].gradient;
    std::vector<float> sum(expected.size());
    for (size_t j = 0; j < experts->parameters()[i].gradient.size(); ++j) {
      sum[j % sum.size()] += experts->parameters()[i].gradient[j];
    }
    for (size_t j = 0; j < sum.size(); ++j) {
      ASSERT_NEAR(sum[j], expected[j], 2e-4) << experts->parameters()[i].name;
    }
  }
}

TEST(UpcyclingTest, OriginsNameTheDenseParameterAndItsCopies) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto experts = LanguageModel::Create(SmallModelConfig(4), 3).value();
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(*dense, *experts);
  ASSERT_EQ(origins.size(), experts->parameters().size());
  for (size_t i = 0; i < origins.size(); ++i) {
    const std::string& name = experts->parameters()[i].name;
    const bool router = name.find("router") != std::string::npos;
    const bool expert = name.find("experts") != std::string::npos;
    EXPECT_EQ(origins[i].dense_parameter < 0, router) << name;
    EXPECT_EQ(origins[i].copies, expert ? 4 : 1) << name;
    if (!router && !expert) {
      EXPECT_EQ(dense->parameters()[origins[i].dense_parameter].name, name);
    }
  }
}

TEST(UpcyclingTest, OnlyMoeLayersGetExperts) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto experts = Upcycle(*dense, SmallModelConfig(4, v1::CAUSAL_SEGMENT, {1}), 3).value();
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(*dense, *experts);
  for (size_t i = 0; i < origins.size(); ++i) {
    const std::string& name = experts->parameters()[i].name;
    const bool expert = name.find("experts") != std::string::npos;
    EXPECT_EQ(expert, name.starts_with("model.layers.1.mlp.") && origins[i].dense_parameter >= 0);
    EXPECT_EQ(origins[i].copies, expert ? 4 : 1) << name;
  }
}

TEST(UpcyclingTest, RoutersAreInitializedFromTheSeed) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto upcycled = Upcycle(*dense, SmallModelConfig(4), 9).value();
  const auto fresh = LanguageModel::Create(SmallModelConfig(4), 9).value();
  int routers = 0;
  for (size_t i = 0; i < fresh->parameters().size(); ++i) {
    const Parameter &a = fresh->parameters()[i], &b = upcycled->parameters()[i];
    if (a.name.find("router") == std::string::npos) continue;
    ++routers;
    EXPECT_TRUE(std::equal(a.value.begin(), a.value.end(), b.value.begin()));
  }
  EXPECT_EQ(routers, 2);
}

TEST(UpcyclingTest, IncompatibleModelsAreErrors) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto experts = LanguageModel::Create(SmallModelConfig(4), 3).value();
  v1::ModelConfig wider = SmallModelConfig(4);
  wider.set_d_ff(32);
  EXPECT_THAT(Upcycle(*dense, wider, 1).status().message(), testing::HasSubstr("d_ff: 32"));
  EXPECT_THAT(Upcycle(*experts, SmallModelConfig(4), 1).status().message(),
              testing::HasSubstr("the source model has experts"));
  EXPECT_THAT(Upcycle(*dense, SmallModelConfig(1), 1).status().message(),
              testing::HasSubstr("the target model is dense"));
}

}  // namespace upcycling_test
}  // namespace braid
