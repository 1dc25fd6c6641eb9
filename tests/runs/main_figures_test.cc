#include "runs/main_figures.h"

#include <gtest/gtest.h>

#include <cmath>

namespace braid {
namespace main_figures_test {

v1::ModelConfig Model(v1::Router router, int segment_length, v1::FirstSegment first) {
  v1::ModelConfig model;
  model.set_sequence_length(128);
  model.mutable_routing()->set_router(router);
  model.mutable_routing()->set_segment_length(segment_length);
  model.mutable_routing()->set_first_segment(first);
  return model;
}

TEST(MainFiguresTest, OnlySegmentsThatFillTheSequenceRouteOnItself) {
  for (const v1::Router router : {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT}) {
    EXPECT_TRUE(RoutesOnItself(Model(router, 128, v1::SELF_STOP_GRADIENT))) << router;
    EXPECT_FALSE(RoutesOnItself(Model(router, 64, v1::SELF_STOP_GRADIENT))) << router;
    EXPECT_FALSE(RoutesOnItself(Model(router, 128, v1::UNIFORM))) << router;
  }
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE, v1::EXPERT_CHOICE_TOKEN}) {
    EXPECT_FALSE(RoutesOnItself(Model(router, 128, v1::SELF_STOP_GRADIENT))) << router;
  }
  EXPECT_FALSE(RoutesOnItself({})) << "not a model";
}

TEST(MainFiguresTest, FiguresOfNoTokenAreNotNumbers) {
  v1::DomainEvaluation domain;
  domain.set_loss(2);
  domain.set_perplexity(7.5);
  EXPECT_TRUE(std::isnan(MainLoss(domain)));
  EXPECT_TRUE(std::isnan(MainPerplexity(domain)));
  EXPECT_TRUE(std::isnan(MainBitsPerByte(domain)));
  domain.set_num_tokens_after_first_segment(3);
  domain.set_loss_after_first_segment(2.5);
  domain.set_perplexity_after_first_segment(12);
  EXPECT_EQ(MainLoss(domain), 2.5);
  EXPECT_EQ(MainPerplexity(domain), 12);
  EXPECT_TRUE(std::isnan(MainBitsPerByte(domain))) << "ends of documents have no bytes";
  domain.set_num_bytes_after_first_segment(9);
  domain.set_bits_per_byte_after_first_segment(0.75);
  EXPECT_EQ(MainBitsPerByte(domain), 0.75);
}

TEST(MainFiguresTest, LossesOfSequencesOfOneSegmentAreThoseOfAllTokens) {
  v1::StepMetrics step;
  step.set_loss(4);
  step.mutable_validation()->set_loss(5);
  EXPECT_EQ(MainLoss(step), 4);
  EXPECT_EQ(MainLoss(step.validation()), 5);
  step.set_loss_after_first_segment(3);
  step.mutable_validation()->set_loss_after_first_segment(2);
  EXPECT_EQ(MainLoss(step), 3);
  EXPECT_EQ(MainLoss(step.validation()), 2);
}

}  // namespace main_figures_test
}  // namespace braid
