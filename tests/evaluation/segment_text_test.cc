#include "evaluation/segment_text.h"

#include <vector>

#include "braid/v1/analysis.pb.h"
#include "evaluation/router_input.h"
#include "gtest/gtest.h"

namespace braid {
namespace segment_text_test {

v1::ModelConfig Config(v1::Router router, v1::FirstSegment first) {
  v1::ModelConfig config;
  config.mutable_routing()->set_router(router);
  config.mutable_routing()->set_first_segment(first);
  config.mutable_routing()->set_segment_length(8);
  return config;
}

TEST(RouterInputTest, ASegmentIsRoutedOnTheOneBefore) {
  for (const v1::Router router : {v1::CAUSAL_SEGMENT, v1::EXPERT_CHOICE_SEGMENT}) {
    const v1::ModelConfig config = Config(router, v1::SELF_STOP_GRADIENT);
    EXPECT_EQ(RouterInputOf(config, 0)->segment, 0);
    EXPECT_EQ(RouterInputOf(config, 1)->segment, 0);
    EXPECT_EQ(RouterInputOf(config, 3)->begin, 16);
    EXPECT_EQ(RouterInputOf(config, 3)->end, 24);
  }
  EXPECT_FALSE(RouterInputOf(Config(v1::CAUSAL_SEGMENT, v1::UNIFORM), 0).has_value());
}

TEST(RouterInputTest, PrefixUsesTheFirstSegmentAndTokenChoiceTheTokenItself) {
  EXPECT_EQ(RouterInputOf(Config(v1::PREFIX, v1::SELF_STOP_GRADIENT), 5)->end, 8);
  const v1::ModelConfig token = Config(v1::EXPERT_CHOICE_TOKEN, v1::UNIFORM);
  EXPECT_EQ(RouterInputOf(token, 0)->end, 1);
  EXPECT_EQ(RouterInputOf(token, 100)->begin, 69);
  EXPECT_EQ(RouterInputOf(token, 100)->end, 101);
}

TEST(RouterInputTest, ASegmentOfADocumentIsRoutedOnTheSegmentBeforeIt) {
  v1::ModelConfig config = Config(v1::CAUSAL_SEGMENT, v1::SELF_STOP_GRADIENT);
  config.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
  EXPECT_EQ(RouterInputOf(config, 0)->end, 8);
  const std::vector<int64_t> starts = {0, 5, 13, 15, 23};
  EXPECT_EQ(RouterInputOf(config, 0, starts)->end, 5);
  EXPECT_EQ(RouterInputOf(config, 5, starts)->begin, 0);
  EXPECT_EQ(RouterInputOf(config, 5, starts)->end, 5);
  EXPECT_EQ(RouterInputOf(config, 13, starts)->begin, 5);
  // The document ended after two tokens of its last segment.
  EXPECT_EQ(RouterInputOf(config, 15, starts)->begin, 13);
  EXPECT_EQ(RouterInputOf(config, 23, starts)->begin, 15);
}

TEST(CutTextTest, CutsBetweenCharacters) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abcd", 3), "abc…");
  EXPECT_EQ(CutText("äöüß", 2), "äö…");
  EXPECT_EQ(CutText("", 2), "");
}

}  // namespace segment_text_test
}  // namespace braid
