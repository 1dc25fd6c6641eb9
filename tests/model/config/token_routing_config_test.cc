#include "model/config/token_routing_config.h"

#include <cstdint>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/config/preset_config.h"

namespace braid {
namespace token_routing_config_test {

// "tiny/8E" with experts of 32 of the 256 hidden units.
v1::ModelConfig TokenChoicePreset() {
  v1::ModelConfig config = PresetConfig("tiny/8E");
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  return config;
}

TEST(TokenRoutingTest, DefaultsSplitTheFfnAndUseTwoExperts) {
  const v1::ModelConfig resolved = ResolveModelConfig(TokenChoicePreset()).value();
  const v1::TokenRouting& token = resolved.routing().token();
  EXPECT_EQ(token.gate(), v1::TokenRouting::LINEAR);
  EXPECT_EQ(token.combine_weights(), v1::TokenRouting::SOFTMAX_OF_CHOSEN);
  EXPECT_EQ(token.selection(), v1::TokenRouting::TOP);
  EXPECT_EQ(token.active_experts(), 2);
  EXPECT_EQ(token.expert_d_ff(), 32);
  EXPECT_EQ(resolved.routing().router_input(), v1::PLAIN_MEAN);
  EXPECT_EQ(ResolveModelConfig(resolved)->SerializeAsString(), resolved.SerializeAsString());
  v1::ModelConfig random = TokenChoicePreset();
  random.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RANDOM);
  EXPECT_EQ(ResolveModelConfig(random)->routing().token().combine_weights(),
            v1::TokenRouting::EQUAL);
  EXPECT_FALSE(DenseCounterpart(resolved).routing().has_token());
}

TEST(TokenRoutingTest, WorkAndActiveParametersAreThoseOfTheChosenExperts) {
  const v1::DescribeModelResponse dense = DescribePreset("tiny");
  const v1::DescribeModelResponse routed =
      DescribeModel(ResolveModelConfig(TokenChoicePreset()).value());
  const int64_t ffn = 4 * 3 * 64 * 256, gates = 4 * 8 * 64;
  EXPECT_EQ(routed.num_parameters(), dense.num_parameters() + gates);
  EXPECT_EQ(routed.num_active_parameters(), dense.num_parameters() - ffn * 3 / 4);
  EXPECT_DOUBLE_EQ(routed.flops_per_token(),
                   dense.flops_per_token() + 6.0 * (static_cast<double>(gates) - ffn * 0.75));
  EXPECT_EQ(routed.merge_flops_per_token(), 0);
}

TEST(TokenRoutingTest, RefusesWhatCannotWorkByName) {
  using Token = v1::TokenRouting;
  const auto error = [](const std::function<void(v1::RoutingConfig*, Token*)>& change) {
    v1::ModelConfig config = TokenChoicePreset();
    change(config.mutable_routing(), config.mutable_routing()->mutable_token());
    return std::string(ResolveModelConfig(config).status().message());
  };
  using Routing = v1::RoutingConfig;
  const auto starts = [](const std::string& text) { return testing::StartsWith(text); };
  EXPECT_THAT(error([](Routing*, Token* t) { t->set_active_experts(9); }),
              starts("model.routing.token.active_experts: got 9, expected 1 to 8"));
  EXPECT_THAT(error([](Routing*, Token* t) { t->set_active_experts(0); }),
              starts("model.routing.token.active_experts: got 0, expected 1 to 8"));
  EXPECT_THAT(
      error([](Routing* r, Token*) { r->set_num_experts(7); }),
      starts("model.routing.num_experts: got 7, expected a divisor of d_ff 256; the nearest are 4 "
             "and 8; or set routing.token.expert_d_ff"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::KEY_MEAN);
                t->set_expert_d_ff(256);
              }),
              starts("model.routing.token.gate: KEY_MEAN needs experts that are slices"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_combine_weights(Token::ONES);
                t->set_expert_d_ff(256);
              }),
              starts("model.routing.token.combine_weights: ONES needs experts that are slices"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::FROZEN);
                t->set_balance_loss(0.01);
              }),
              starts("model.routing.token.balance_loss: got 0.01, but the gate FROZEN is not"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::RANDOM);
                t->set_combine_weights(Token::SOFTMAX_OF_CHOSEN);
              }),
              starts("model.routing.token.combine_weights: got SOFTMAX_OF_CHOSEN, but the gate"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::COSINE);
                t->set_temperature(0.009);
              }),
              starts("model.routing.token.temperature: got 0.009, expected at least 0.01"));
  EXPECT_EQ(error([](Routing*, Token* t) {
              t->set_gate(Token::COSINE);
              t->set_temperature(0.01);
            }),
            "");
  EXPECT_THAT(error([](Routing*, Token* t) { t->set_gate_noise_std(-1); }),
              starts("model.routing.token.gate_noise_std: got -1"));
  EXPECT_THAT(error([](Routing* r, Token*) { r->set_router(v1::CAUSAL_SEGMENT); }),
              starts("model.routing.token: the router is CAUSAL_SEGMENT, expected TOKEN_CHOICE"));
}

}  // namespace token_routing_config_test
}  // namespace braid
