#include "model/config/mixtral.h"

#include <string>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/config/preset_config.h"

namespace braid {
namespace mixtral_test {

TEST(WhyNotMixtralTest, NamesTheFirstSettingThatAMixtralLacks) {
  const std::string chosen = "router: TOKEN_CHOICE num_experts: 4 ";
  const auto why = [&](const std::string& routing, const std::string& more = "") {
    const std::string text = "routing { " + chosen + routing + " } " + more;
    return WhyNotMixtral(ResolveModelConfig(ConfigFromText(text)).value());
  };
  EXPECT_EQ(why(""), "");
  EXPECT_EQ(why("token { gate: FROZEN }"), "");
  EXPECT_EQ(why("moe_layers: 1"), "some layers are dense");
  EXPECT_EQ(why("token { gate: RELU }"), "the gate is RELU, expected LINEAR or FROZEN");
  EXPECT_EQ(why("token { combine_weights: EQUAL }"),
            "the combine weights are EQUAL, expected SOFTMAX_OF_CHOSEN");
  EXPECT_EQ(why("token { selection: BOTTOM }"), "the selection is BOTTOM, expected TOP");
  EXPECT_EQ(why("router_input: NORMALIZED_MEAN"),
            "the input of the gate is NORMALIZED_MEAN, expected PLAIN_MEAN");
  EXPECT_EQ(why("", "qkv_bias: true"), "attention has biases or norms");
  EXPECT_EQ(why("", "logit_soft_cap: 30"), "the logits are bounded (logit_soft_cap)");
}

}  // namespace mixtral_test
}  // namespace braid
