// The figures of the claims of SMoE-Dropout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "reproduce/reproduction_page.h"
#include "reproduce/smoe_dropout/routing_series.h"
#include "reproduce/smoe_dropout/smoe_dropout_claims.h"
#include "reproduce/smoe_dropout/smoe_dropout_experiment.h"
#include "tests/report/page_checks.h"
#include "tests/reproduce/fabricated_evidence.h"

namespace braid {
namespace smoe_dropout_series_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr ClaimSettings kSettings = {.bootstrap = {.samples = 30},
                                     .segment_length = kUnscoredPositions};

// Losses fall by .1 with each further expert. Expert 0 of layer l receives a share of (l + 1) / 10,
// the others the rest.
Evidence World() {
  Evidence evidence = FabricateEvidence(
      SmoeDropoutExperiment(), [](const PlannedRun&, int active) { return 6 - 0.1 * active; });
  evidence.scored_texts[kUnscoredPositions] = {.tokens = 1000, .bytes = 2500};
  for (ArmResult& result : evidence.results) {
    for (v1::StepMetrics& step : result.metrics) {
      step.set_num_tokens(1000 * step.step());
      if (result.num_experts < 2 || step.step() % 2 == 1) continue;
      for (int l = 0; l < 4; ++l) {
        v1::LayerRouting* const layer = step.add_routing();
        layer->set_layer(l);
        layer->set_expert_cosine(0.01 * static_cast<double>(step.step()));
        layer->set_busiest_over_mean(2 + l);
        layer->set_starved_experts(l);
        const double first = 0.1 * (l + 1);
        layer->add_load(first);
        for (int e = 1; e < result.num_experts; ++e) {
          layer->add_load((1 - first) / (result.num_experts - 1));
        }
      }
    }
  }
  return evidence;
}

// The series of a claim by figure and name.
std::map<std::string, std::map<std::string, ClaimSeries>> SeriesOf(const Claim& claim) {
  std::map<std::string, std::map<std::string, ClaimSeries>> series;
  for (const ClaimSeries& one : claim.series) series[one.figure.name][one.name] = one;
  return series;
}

TEST(SmoeDropoutSeriesTest, EveryArmHasATrainingCurve) {
  std::set<std::string> drawn;
  for (const Claim& claim : EvaluateSmoeClaims(World(), kSettings)) {
    for (const ClaimSeries& series : claim.series) {
      if (series.figure.name.starts_with("Training loss")) drawn.insert(series.name);
    }
  }
  for (const ArmDefinition& arm : SmoeDropoutExperiment().arms) {
    EXPECT_TRUE(drawn.contains(arm.name)) << arm.name;
  }
}

TEST(SmoeDropoutSeriesTest, LossesByExpertsAreInNatsAndInBitsPerByte) {
  const std::vector<Claim> claims = EvaluateSmoeClaims(World(), kSettings);
  auto figures = SeriesOf(claims[2]);
  const std::string name = "Held-out loss by experts per token";
  for (const char* arm : {"smoe-dropout", "learned", "learned-growing", "fixed-k"}) {
    const ClaimSeries nats = figures[name][arm], bits = figures[name + ", bits per byte"][arm];
    EXPECT_THAT(nats.x, ElementsAre(1, 2, 4, 8, 16)) << arm;
    ASSERT_THAT(nats.values, SizeIs(5));
    ASSERT_THAT(bits.values, SizeIs(5));
    EXPECT_NEAR(nats.values[0] - nats.values[4], 1.5, 0.01);
    EXPECT_DOUBLE_EQ(bits.values[2], nats.values[2] / std::log(2) / 2.5);
    EXPECT_GE(*nats.figure.y_max, nats.values[0]);
  }
  EXPECT_THAT(figures[name + ", thor"]["thor"].values, SizeIs(5));
  EXPECT_THAT(claims[0].notes, ElementsAre(HasSubstr("1 nat per token is 0.5771 bits per byte")));
}

TEST(SmoeDropoutSeriesTest, WithoutTheSizeOfTheTextThereAreNoBitsPerByte) {
  Evidence evidence = World();
  evidence.scored_texts.clear();
  const std::vector<Claim> claims = EvaluateSmoeClaims(evidence, kSettings);
  EXPECT_FALSE(SeriesOf(claims[2]).contains("Held-out loss by experts per token, bits per byte"));
  EXPECT_TRUE(claims[0].notes.empty());
}

TEST(SmoeDropoutSeriesTest, LoadsOfFrozenAndLearnedGatesAreByLayer) {
  auto figures = SeriesOf(EvaluateSmoeClaims(World(), kSettings)[4]);
  for (const char* gate : {"frozen gate, k 8", "learned gate, k 8", "learned gate, k 2"}) {
    const auto& rows = figures[std::string("Share of tokens' choices, ") + gate];
    ASSERT_THAT(rows, SizeIs(4)) << gate;
    const ClaimSeries& row = rows.at("layer 3");
    ASSERT_THAT(row.values, SizeIs(16));
    EXPECT_NEAR(row.values[0], 0.4, 1e-12);
    EXPECT_NEAR(row.values[15], 0.04, 1e-12);
    EXPECT_EQ(row.labels[15], "15");
  }
  const auto& busiest = figures["Load of the busiest expert over the mean, by layer"];
  EXPECT_THAT(busiest.at("fixed-k").values, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(busiest.at("learned").labels,
              ElementsAre("layer 0", "layer 1", "layer 2", "layer 3"));
  const auto& starved = figures["Experts under a quarter of the mean load, by layer"];
  EXPECT_THAT(starved.at("learned-half").values, ElementsAre(0, 1, 2, 3));
  const auto& cosines = figures["Cosine of experts, mean over layers"];
  for (const char* arm : {"smoe-dropout", "learned", "thor", "hash"}) {
    ASSERT_THAT(cosines.at(arm).values, SizeIs(10)) << arm;
    EXPECT_NEAR(cosines.at(arm).values.back(), 0.2, 1e-12);
    EXPECT_EQ(cosines.at(arm).x.back(), 20000);
  }
}

TEST(SmoeDropoutSeriesTest, AnArmWithoutRunsHasNoSeries) {
  const SeriesFigure figure = {.name = "any"};
  const auto number = [](const v1::LayerRouting& layer) { return layer.expert_cosine(); };
  EXPECT_TRUE(LossByExperts({}, "learned", 1, figure).values.empty());
  EXPECT_TRUE(LayerCurveOf({}, "learned", figure, number).values.empty());
  EXPECT_TRUE(LateLayersOf({}, "learned", figure, number).values.empty());
  EXPECT_TRUE(LoadRowsOf({}, "learned", figure).empty());
}

TEST(SmoeDropoutSeriesTest, ThePageDrawsThem) {
  const std::string html = RenderReproduction(
      {.experiment = &SmoeDropoutExperiment(), .claims = EvaluateSmoeClaims(World(), kSettings)});
  ExpectGoodPage(html);
  for (const char* title :
       {"<h3>Held-out loss by experts per token, bits per byte</h3>",
        "<h3>Training loss, 4 experts of 64 units</h3>",
        "<h3>Cosine of experts, mean over layers</h3>", "Share of tokens", "layer 3"}) {
    EXPECT_THAT(html, HasSubstr(title));
  }
}

// The loss of "learned", which is trained with 2 experts, would else be taken for that with 2.
TEST(SmoeDropoutSeriesTest, ThePageSaysOfWhichExpertsAndPositionsLossesAre) {
  const std::string html =
      RenderReproduction({.experiment = &SmoeDropoutExperiment(),
                          .runs = {{.name = "learned-random-seed-0", .arm = "learned"}}});
  for (const char* text :
       {"experts per token is that with all experts", "nats per token without first positions,",
        "Both exclude the first position of each sequence. The third kind"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, testing::Not(HasSubstr("which is routed on itself")));
}

}  // namespace smoe_dropout_series_test
}  // namespace braid
