#include "runs/metrics_export/run_events.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runs/metrics_export/text_tables.h"

namespace braid {
namespace run_events_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

v1::StepMetrics WithWeights(const std::vector<double>& weights) {
  v1::StepMetrics metrics;
  metrics.set_step(5);
  v1::LayerRouting* layer = metrics.add_routing();
  layer->set_layer(3);
  layer->mutable_mean_weights()->Assign(weights.begin(), weights.end());
  return metrics;
}

std::vector<tensorboard::Histogram> Histograms(const v1::StepMetrics& metrics) {
  std::vector<tensorboard::Histogram> histograms;
  const tensorboard::Event event = StepEvent(metrics);
  for (const auto& value : event.summary().value()) {
    if (!value.has_histogram()) continue;
    EXPECT_EQ(value.tag(), "routing/layer_03/weight_by_expert");
    histograms.push_back(value.histogram());
  }
  return histograms;
}

TEST(RunEventsTest, WeightsAreAHistogramOverTheNumberOfTheExpert) {
  const auto histograms = Histograms(WithWeights({0, 0.25, 0.75, 0}));
  ASSERT_EQ(histograms.size(), 1u);
  const tensorboard::Histogram& h = histograms[0];
  EXPECT_THAT(h.bucket(), ElementsAre(0, 0.25, 0.75, 0));
  EXPECT_THAT(h.bucket_limit(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(h.num(), 1);
  EXPECT_DOUBLE_EQ(h.sum(), 0.25 * 1.5 + 0.75 * 2.5);
  EXPECT_DOUBLE_EQ(h.sum_squares(), 0.25 * 1.5 * 1.5 + 0.75 * 2.5 * 2.5);
  // Readers drop empty outer buckets and use min and max in their place.
  EXPECT_EQ(h.min(), 1);
  EXPECT_EQ(h.max(), 3);
}

TEST(RunEventsTest, LoadsAreAHistogramOverTheNumberOfTheExpert) {
  v1::StepMetrics metrics;
  v1::LayerRouting* layer = metrics.add_routing();
  layer->set_layer(3);
  for (const double load : {0.5, 0.0, 0.5}) layer->add_load(load);
  const tensorboard::Event event = StepEvent(metrics);
  int found = 0;
  for (const auto& value : event.summary().value()) {
    if (value.tag() != "routing/layer_03/load_by_expert") continue;
    EXPECT_THAT(value.histogram().bucket(), ElementsAre(0.5, 0, 0.5));
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST(RunEventsTest, InvalidWeightsAreLeftOut) {
  EXPECT_TRUE(Histograms(WithWeights({})).empty());
  EXPECT_TRUE(Histograms(WithWeights({0.5, std::nan("")})).empty());
  EXPECT_TRUE(Histograms(WithWeights({0.5, -0.5})).empty());
}

TEST(RunEventsTest, ChoicesOfLayersAreAHistogramOverTheNumberOfTheLayer) {
  v1::StepMetrics metrics;
  v1::LayerChoices* layer = metrics.add_layer_choices();
  layer->set_layer(2);
  for (const double share : {0.25, 0.0, 0.75}) layer->add_shares(share);
  const tensorboard::Event event = StepEvent(metrics);
  int found = 0;
  for (const auto& value : event.summary().value()) {
    if (value.tag() != "mixing/layer_02/choice_by_layer") continue;
    EXPECT_THAT(value.histogram().bucket(), ElementsAre(0.25, 0, 0.75));
    EXPECT_THAT(value.histogram().bucket_limit(), ElementsAre(1, 2, 3));
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST(RunEventsTest, LearnedDropoutRatesAreScalarsOfTheirLayers) {
  v1::StepMetrics metrics;
  for (const double rate : {0.25, 0.5}) metrics.add_dropout_rates(rate);
  std::map<std::string, float> values;
  const tensorboard::Event event = StepEvent(metrics);
  for (const auto& value : event.summary().value()) values[value.tag()] = value.simple_value();
  EXPECT_EQ(values["dropout/layer_00/rate"], 0.25f);
  EXPECT_EQ(values["dropout/layer_01/rate"], 0.5f);
}

TEST(RunEventsTest, ValidationsAndMixturesHaveAGroupForEachText) {
  v1::StepMetrics metrics;
  metrics.set_step(5);
  v1::ValidationDomain* domain = metrics.mutable_validation()->add_domains();
  domain->set_domain("news");
  domain->set_loss(2.5);
  domain = metrics.mutable_validation()->add_domains();
  domain->set_dataset("/data/web");
  domain->set_domain("news");
  domain->set_loss(3.5);
  v1::DatasetLoss* const dataset = metrics.add_datasets();
  dataset->set_dataset("/data/web");
  dataset->set_loss(4.5);
  dataset->set_num_instances(2);
  std::map<std::string, float> values;
  const tensorboard::Event event = StepEvent(metrics);
  for (const auto& value : event.summary().value()) values[value.tag()] = value.simple_value();
  EXPECT_EQ(values["validation/news/loss"], 2.5f);
  EXPECT_EQ(values["validation/web/news/loss"], 3.5f);
  EXPECT_EQ(values["datasets/web/loss"], 4.5f);
  EXPECT_TRUE(values.contains("validation/loss"));
}

TEST(RunEventsTest, DatasetsOfTheSameLastPartHaveDifferentTags) {
  const std::pair<const char*, const char*> names[] = {{"/data/web/packed", "web/packed"},
                                                       {"/data/code/packed", "data/code/packed"},
                                                       {"/old/code/packed", "old/code/packed"},
                                                       {"/packed", "packed"},
                                                       {"/data/unpacked", "unpacked"}};
  v1::StepMetrics metrics;
  double loss = 0;
  for (const auto& [directory, name] : names) {
    v1::DatasetLoss* const dataset = metrics.add_datasets();
    dataset->set_dataset(directory);
    dataset->set_loss(++loss);
    dataset->set_num_instances(1);
    v1::ValidationDomain* const domain = metrics.mutable_validation()->add_domains();
    domain->set_dataset(directory);
    domain->set_domain("news");
    domain->set_loss(10 * loss);
  }
  std::map<std::string, double> values;
  const tensorboard::Event event = StepEvent(metrics);
  for (const auto& value : event.summary().value()) {
    EXPECT_TRUE(values.insert({value.tag(), value.simple_value()}).second) << value.tag();
  }
  loss = 0;
  for (const auto& [directory, name] : names) {
    EXPECT_EQ(values[absl::StrCat("datasets/", name, "/loss")], ++loss);
    EXPECT_EQ(values[absl::StrCat("validation/", name, "/news/loss")], 10 * loss);
  }
}

TEST(RunEventsTest, TextIsMarkdownForItsTab) {
  const tensorboard::Event event = TextEvent(8.5, 5, "run/sample", "*a*");
  EXPECT_EQ(event.step(), 5);
  EXPECT_EQ(event.wall_time(), 8.5);
  const auto& value = event.summary().value(0);
  EXPECT_EQ(value.tag(), "run/sample");
  EXPECT_EQ(value.metadata().plugin().name(), "text");
  EXPECT_TRUE(value.tensor().has_shape());
  EXPECT_THAT(value.tensor().string_value(), ElementsAre("*a*"));
}

TEST(RunEventsTest, EvaluationHasAGroupForEachDomain) {
  v1::Evaluation evaluation;
  evaluation.set_step(480);
  v1::DomainEvaluation* domain = evaluation.add_domains();
  domain->set_domain("Lizenzen \xC3\xBC");
  domain->set_num_tokens_after_first_segment(3);
  domain->set_perplexity_after_first_segment(12.5);
  domain->set_num_bytes_after_first_segment(9);
  domain->set_bits_per_byte_after_first_segment(0.75);
  evaluation.mutable_total()->set_num_tokens_after_first_segment(3);
  evaluation.mutable_total()->set_loss_after_first_segment(2.5);
  const tensorboard::Event event = EvaluationEvent(1, evaluation);
  EXPECT_EQ(event.step(), 480);
  std::map<std::string, float> values;
  for (const auto& value : event.summary().value()) values[value.tag()] = value.simple_value();
  EXPECT_EQ(values.size(), 7u);
  EXPECT_EQ(values["heldout/Lizenzen \xC3\xBC/perplexity"], 12.5f);
  EXPECT_EQ(values["heldout/Lizenzen \xC3\xBC/bits_per_byte"], 0.75f);
  EXPECT_EQ(values["heldout/all/loss"], 2.5f);
}

TEST(RunEventsTest, FiguresOfNoTokenAreLeftOut) {
  v1::Evaluation evaluation;
  evaluation.mutable_total()->set_perplexity(7.5);
  const tensorboard::Event event = EvaluationEvent(1, evaluation);
  ASSERT_EQ(event.summary().value_size(), 1);
  EXPECT_EQ(event.summary().value(0).tag(), "heldout/all/perplexity_with_first_segment");
  v1::StepMetrics metrics;
  metrics.mutable_validation()->add_domains()->set_domain("news");
  const tensorboard::Event step = StepEvent(metrics);
  int of_the_domain = 0;
  for (const auto& value : step.summary().value()) {
    EXPECT_THAT(value.tag(), Not(HasSubstr("after_first_segment")));
    of_the_domain += value.tag() == "validation/news/loss" ? 1 : 0;
  }
  EXPECT_EQ(of_the_domain, 1);
}

TEST(TextTablesTest, EvaluationNamesTheTokensThatCount) {
  v1::Evaluation evaluation;
  evaluation.set_step(8);
  evaluation.mutable_total()->set_domain("all");
  evaluation.mutable_total()->set_perplexity(7.5);
  EXPECT_THAT(EvaluationTable(evaluation),
              testing::AllOf(HasSubstr("All tokens count.\n"),
                             HasSubstr("| all | 0 | \xE2\x80\x93 | \xE2\x80\x93 | 7.50 |")));
  evaluation.set_routes_on_itself(true);
  EXPECT_THAT(EvaluationTable(evaluation), HasSubstr("so its losses are too low.\n"));
  evaluation.set_routes_on_itself(false);
  evaluation.set_first_segment_length(16);
  EXPECT_THAT(EvaluationTable(evaluation), HasSubstr("leaves out the first 16 tokens of each"));
}

TEST(TextTablesTest, ConfigurationHasARowForEachSetting) {
  v1::RunSpec spec;
  spec.set_name("a | b");
  spec.mutable_model()->mutable_routing()->set_num_experts(8);
  spec.mutable_launch()->add_hosts()->set_host("nd1");
  const std::string table = ConfigurationTable(spec);
  EXPECT_THAT(table, HasSubstr("| setting | value |\n|---|---|\n| name | \"a \\| b\" |\n"));
  EXPECT_THAT(table, HasSubstr("| model.routing.num_experts | 8 |\n"));
  EXPECT_THAT(table, HasSubstr("| launch.hosts |"));
  EXPECT_THAT(table, Not(HasSubstr("seed")));
}

TEST(TextTablesTest, VerbatimKeepsLinesAndMendsBytes) {
  EXPECT_EQ(Verbatim("a\n\n# b"), "    a\n    \n    # b\n");
  EXPECT_EQ(Verbatim("\xFFx"), "    \xEF\xBF\xBDx\n");
}

}  // namespace run_events_test
}  // namespace braid
