#include "report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/report/page_checks.h"
#include "tests/report/synthetic_run.h"

namespace braid {
namespace report_page_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ReportPageTest, ShowsEverySectionOfFourRuns) {
  const std::string html = RenderReport(SyntheticRuns());
  ExpectGoodPage(html);
  for (const char* heading :
       {"Runs", "Gain of the experts", "Training loss", "Held-out perplexity by domain",
        "Expert utilization", "Routing by domain", "Speed", "Order of the documents", "Sample",
        "Configuration"}) {
    EXPECT_THAT(html, HasSubstr(std::string("<h2>") + heading + "</h2>"));
  }
  EXPECT_THAT(html, AllOf(HasSubstr("moe-similarity (run-000002)"), HasSubstr("0.262"),
                          HasSubstr("manual pages"), HasSubstr("prefers-color-scheme: dark")));
}

TEST(ReportPageTest, GainIsDenseMinusMoeWithoutTheFirstSegment) {
  const std::vector<ReportRun> runs = SyntheticRuns();
  const double gain = runs[0].evaluation->total().loss_after_first_segment() -
                      runs[1].evaluation->total().loss_after_first_segment();
  ASSERT_NEAR(gain, 0.110, 1e-9);
  EXPECT_THAT(RenderReport(runs), HasSubstr("<td>+0.110</td>"));
}

TEST(ReportPageTest, EvaluationsOfDifferentStepsHaveNoGain) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  runs[0].evaluation->set_step(480);
  runs[1].evaluation->set_step(200);
  runs[1].evaluation_note = "measured at step 200; the run has trained to step 480";
  const auto gain = [&] {
    const std::string html = RenderReport(runs);
    ExpectGoodPage(html);
    const size_t start = html.find("<h2>Gain of the experts</h2>");
    return html.substr(start, html.find("</section>", start) - start);
  };
  EXPECT_THAT(gain(), AllOf(HasSubstr("<td>\xE2\x80\x93</td>"), Not(HasSubstr("<td>+0.110</td>")),
                            HasSubstr(runs[1].evaluation_note)));
  runs[1].evaluation->set_step(480);
  EXPECT_THAT(gain(), HasSubstr("<td>+0.110</td>"));
}

TEST(ReportPageTest, FiguresOfNoTokenAreDashes) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  for (v1::DomainEvaluation* domain :
       {runs[1].evaluation->mutable_total(), runs[1].evaluation->mutable_domains(0)}) {
    domain->clear_num_tokens_after_first_segment();
    domain->clear_loss_after_first_segment();
    domain->clear_perplexity_after_first_segment();
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("\xE2\x86\x92 0.00")), HasSubstr("<td>\xE2\x80\x93</td>"),
                          HasSubstr(" \xE2\x86\x92 \xE2\x80\x93</td>")));
}

TEST(ReportPageTest, NamesRunsWhoseOnlySegmentRoutesOnItself) {
  std::vector<ReportRun> runs = SyntheticRuns();
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("each sequence is one segment")));
  for (ReportRun& run : runs) run.spec.mutable_model()->set_sequence_length(64);
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(HasSubstr("moe-similarity (run-000002): each sequence is one segment"),
                          Not(HasSubstr("dense-similarity (run-000001): each sequence"))));
}

TEST(ReportPageTest, ShowsExpertHealthOfTheLayersThatHaveExperts) {
  std::vector<ReportRun> runs = {SyntheticRuns()[1]};
  for (v1::StepMetrics& step : runs[0].metrics) {
    for (v1::LayerRouting& layer : *step.mutable_routing()) layer.set_layer(2 * layer.layer() + 1);
  }
  for (v1::DomainEvaluation& domain : *runs[0].evaluation->mutable_domains()) {
    for (v1::LayerWeights& layer : *domain.mutable_routing())
      layer.set_layer(2 * layer.layer() + 1);
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  for (const char* chart :
       {"Effective experts", "Active experts", "Routing entropy", "Cosine of experts"}) {
    EXPECT_THAT(html, HasSubstr(std::string(chart) + " of each layer"));
  }
  EXPECT_THAT(html, AllOf(HasSubstr("<figcaption>layer 7</figcaption>"), HasSubstr("layer 5"),
                          Not(HasSubstr("layer 4"))));
}

TEST(ReportPageTest, ShowsTheLoadsOfExpertsThatTokensChoose) {
  std::vector<ReportRun> runs = {SyntheticRuns()[1]};
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("busiest")));
  runs[0].spec.mutable_model()->mutable_routing()->set_router(v1::TOKEN_CHOICE);
  for (v1::StepMetrics& step : runs[0].metrics) {
    for (v1::LayerRouting& layer : *step.mutable_routing()) {
      for (const double load : {0.5, 0.25, 0.125, 0.125, 0.0, 0.0, 0.0, 0.0}) layer.add_load(load);
      layer.set_busiest_over_mean(4);
      layer.set_starved_experts(4);
      layer.set_load_entropy(1.25);
    }
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  for (const char* chart : {"Load of the busiest expert", "Entropy of loads"}) {
    EXPECT_THAT(html, HasSubstr(std::string(chart) + " of each layer"));
  }
  EXPECT_THAT(html, AllOf(HasSubstr("share of pairs by expert, %"),
                          HasSubstr("<td>3</td><td>50.0 25.0 12.5 12.5 0.0 0.0 0.0 0.0</td>"
                                    "<td>4.00</td><td>4</td><td>1.250</td>")));
}

TEST(ReportPageTest, ShowsWhichLayersMixingLayersChoose) {
  std::vector<ReportRun> runs = SyntheticRuns();
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("<h2>Mixing of layers</h2>")));
  int step = 0;
  for (v1::StepMetrics& metrics : runs[1].metrics) {
    if (++step % 10 != 0) continue;
    for (int layer = 1; layer < 3; ++layer) {
      v1::LayerChoices* choices = metrics.add_layer_choices();
      choices->set_layer(layer);
      for (const double share : {0.0, 0.125, 0.25, 0.625}) choices->add_shares(share);
    }
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<h2>Mixing of layers</h2>"),
                          HasSubstr("Share of other layers of each layer"),
                          HasSubstr("layer 1, layer 3: 0.62"), HasSubstr(", step 480")));
}

TEST(ReportPageTest, EscapesTextOfRuns) {
  std::vector<ReportRun> runs = SyntheticRuns();
  const std::string evil = "</title><script>alert('x')</script>&\"";
  runs[1].title = evil;
  runs[1].spec.set_name(evil);
  runs[1].spec.set_dataset_dir(evil);
  runs[1].sample_text = evil + std::string("\0\xff", 2);
  runs[1].evaluation->mutable_domains(0)->set_domain(evil);
  runs[1].ordering_report_json = R"({"order":"<b>","restarts":"<i>"})";
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("<b>")), Not(HasSubstr("<i>"))));
  ExpectGoodPage(RenderReport(std::span(runs).subspan(1, 1)));
}

TEST(ReportPageTest, LongSamplesEndWithAWholeCharacter) {
  for (const size_t letters : {3997u, 3998u, 3999u, 4000u}) {
    std::vector<ReportRun> runs = {SyntheticRuns()[0]};
    // The character has three bytes.
    runs[0].sample_text = std::string(letters, 'a') + "\u65e5 and more";
    const std::string html = RenderReport(runs);
    ExpectGoodPage(html);
    EXPECT_THAT(html, HasSubstr(letters == 3997 ? "aa\u65e5\n\u2026</pre>" : "aa\n\u2026</pre>"));
    EXPECT_THAT(html, Not(HasSubstr("\ufffd")));
  }
}

TEST(ReportPageTest, MarksWhereConfigurationsDiffer) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs[1].spec.mutable_optimizer()->set_beta2(0.99);
  const std::string html = RenderReport(std::span(runs).first(2));
  EXPECT_THAT(html, HasSubstr("<tr class=\"differs\"><td><code>optimizer.beta2</code>"));
  EXPECT_THAT(html, Not(HasSubstr("<tr class=\"differs\"><td><code>optimizer.beta1</code>")));
}

TEST(ReportPageTest, ConfigurationHasRepeatedFields) {
  std::vector<ReportRun> runs = SyntheticRuns();
  for (const int layer : {1, 3})
    runs[1].spec.mutable_model()->mutable_routing()->add_moe_layers(layer);
  runs[1].spec.mutable_launch()->add_hosts()->set_host("node-7");
  const std::string html = RenderReport(std::span(runs).first(2));
  EXPECT_THAT(html, AllOf(HasSubstr("model.routing.moe_layers</code></td><td>none</td><td>1, 3<"),
                          HasSubstr("host: &quot;node-7&quot;")));
  EXPECT_THAT(RenderReport(runs), HasSubstr("<th scope=\"col\"><code>model.routing.moe_layers<"))
      << "a row a run";
}

TEST(ReportPageTest, SpeedOfARunWithoutTimesInItsLastStep) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs[0].metrics.back().clear_times();
  EXPECT_THAT(RenderReport(std::span(runs).first(1)), HasSubstr("75.0\xC2\xA0%"));
  for (v1::StepMetrics& step : runs[0].metrics) {
    step.clear_times();
    step.clear_gflops();
    step.clear_model_flops_utilization();
    step.clear_peak_resident_mb();
  }
  const std::string html = RenderReport(std::span(runs).first(1));
  EXPECT_THAT(html, AllOf(HasSubstr("<h2>Speed</h2>"), Not(HasSubstr("share of a step")),
                          HasSubstr("<td>\xE2\x80\x93</td><td>\xE2\x80\x93</td>"
                                    "<td>\xE2\x80\x93</td></tr>")));
}

int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ReportPageTest, ValidationsOfManyRunsHaveStylesOfTheirOwn) {
  std::vector<ReportRun> runs(10, SyntheticRuns()[0]);
  for (ReportRun& run : runs) {
    run.metrics[99].mutable_validation()->set_loss(7);
    run.metrics[99].mutable_validation()->set_loss_after_first_segment(7);
  }
  const std::string html = RenderReport(runs);
  const size_t begin = html.find("class=\"legend\"", html.find("<h2>Training loss</h2>"));
  const std::string legend = html.substr(begin, html.find("</p>", begin) - begin);
  EXPECT_EQ(CountOf(legend, "\"swatch c0 dashed\""), 1) << legend;
  EXPECT_EQ(CountOf(legend, "\"swatch c0 dotted\""), 1) << legend;
}

// A row between two validations has neither loss.
TEST(ReportPageTest, LossesOfValidationStandWhereTheyWereMeasured) {
  std::vector<ReportRun> runs = {SyntheticRuns()[0]};
  for (const auto& [step, loss] : {std::pair(96, 7.125), {100, 7.25}, {480, 6.5}}) {
    v1::ValidationMetrics* validation = runs[0].metrics[step - 1].mutable_validation();
    validation->set_loss(loss);
    validation->set_loss_after_first_segment(loss);
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  const size_t table = html.find("<summary>Values</summary>", html.find("<h2>Training loss</h2>"));
  const std::string values = html.substr(table, html.find("</details>", table) - table);
  EXPECT_EQ(CountOf(values, "<td>7.125</td></tr>"), 1) << values;
  EXPECT_EQ(CountOf(values, "<td>7.250</td></tr>"), 0);
  EXPECT_EQ(CountOf(values, "<td>6.500</td></tr>"), 1);
  EXPECT_EQ(CountOf(values, "<td>\xE2\x80\x93</td></tr>"), 8);
  EXPECT_EQ(CountOf(values, "<td>\xE2\x80\x93</td><td>"), 0) << "the curve has every row";
}

TEST(ReportPageTest, TheLastValidationIsShownByDatasetAndDomain) {
  std::vector<ReportRun> runs = {SyntheticRuns()[0]};
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("Last validation by domain")));
  for (const int step : {240, 480}) {
    v1::ValidationMetrics* validation = runs[0].metrics[step - 1].mutable_validation();
    validation->set_loss(2.5);
    for (const char* dataset : {"", "/data/<b>"}) {
      v1::ValidationDomain* const domain = validation->add_domains();
      domain->set_dataset(dataset);
      domain->set_domain("perl");
      domain->set_num_windows(7);
      domain->set_loss(2.5 + step);
      if (*dataset == 0) domain->set_loss_after_first_segment(1.5 + step);
    }
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(HasSubstr(", step 480</td><td>/data/SIMILARITY</td><td>perl</td>"
                                    "<td>7</td><td>481.500</td>"),
                          HasSubstr("<td>/data/&lt;b&gt;</td><td>perl</td><td>7</td>"
                                    "<td>482.500</td>"),
                          Not(HasSubstr("241.500"))));
}

TEST(ReportPageTest, MarksLossSpikesWithWhatWasDone) {
  std::vector<ReportRun> runs = {SyntheticRuns()[0]};
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("loss spike")));
  v1::LossSpike* const spike = runs[0].metrics[199].mutable_spike();
  spike->set_step(200);
  spike->set_action(v1::SKIP_BATCH);
  spike->set_loss(9.5);
  spike->set_loss_z(25);
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, HasSubstr("step 200: loss spike: loss 9.5 (z 25)"));
  EXPECT_THAT(html, HasSubstr("batch skipped"));
}

TEST(ReportPageTest, TasksShowTheShotsAndExamplesOfEachRun) {
  std::vector<ReportRun> runs = SyntheticRuns();
  for (size_t i = 0; i < runs.size(); ++i) {
    v1::TaskResult& result = *runs[i].tasks.emplace().add_results();
    result.set_task("sst2");
    result.set_routing(v1::PROMPT_ROUTING);
    result.set_num_shots(i == 0 ? 2 : 4);
    result.set_mean_shots(i == 0 ? 2 : 4);
    result.set_num_examples(i == 0 ? 872 : 60);
    result.add_metrics()->set_name("acc");
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, HasSubstr("<td>sst2</td><td>acc</td><td>2, 4</td><td>872, 60</td>"));
}

TEST(ReportPageTest, MarksTheBestOnlyBeyondTheNoise) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  const auto total = [&](int run, double value, double low, double high) {
    v1::DomainEvaluation* all = runs[run].evaluation->mutable_total();
    all->set_perplexity_after_first_segment(value);
    all->mutable_perplexity_after_first_segment_interval()->set_low(low);
    all->mutable_perplexity_after_first_segment_interval()->set_high(high);
  };
  total(0, 31.5, 31, 32);
  total(1, 30.5, 30, 31);
  EXPECT_THAT(RenderReport(runs), HasSubstr("<td><strong>30.50<"));
  total(1, 30.5, 29, 32);
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("<td><strong>30.50<")));
}

TEST(ReportPageTest, OneDenseRunHasNoExpertSections) {
  const std::vector<ReportRun> runs = SyntheticRuns();
  const std::string html = RenderReport(std::span(runs).first(1));
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<h2>Training loss</h2>"),
                          Not(HasSubstr("<h2>Expert utilization</h2>")),
                          Not(HasSubstr("<h2>Routing by domain</h2>")),
                          Not(HasSubstr("<h2>Gain of the experts</h2>"))));
}

TEST(ReportPageTest, ShowsTheLossByNumberOfActiveExperts) {
  std::vector<ReportRun> runs = SyntheticRuns();
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("Loss by number of active experts")));
  for (const int active : {4, 1, 2}) {
    v1::Evaluation* const evaluation = runs[1].by_active_experts.add_evaluations();
    evaluation->set_active_experts(active);
    evaluation->set_step(1200);
    v1::DomainEvaluation* const total = evaluation->mutable_total();
    total->set_loss(7);
    total->set_perplexity(std::exp(7));
    total->set_num_tokens_after_first_segment(100);
    total->set_loss_after_first_segment(2.125 + 1.0 / active);
    total->set_perplexity_after_first_segment(std::exp(2.125 + 1.0 / active));
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<h3>Loss by number of active experts</h3>"),
                          HasSubstr("<td>1200</td><td>1</td><td>3.125</td><td>22.76</td>"),
                          HasSubstr("2.375")));
  // The number of `braid eval perplexity`, as all others of the section.
  EXPECT_THAT(html, Not(HasSubstr("<td>7.000</td>")));
  // A run that was scored only with other numbers of active experts has no evaluation.json.
  for (ReportRun& run : runs) run.evaluation.reset();
  EXPECT_THAT(RenderReport(runs), HasSubstr("<h3>Loss by number of active experts</h3>"));
}

TEST(ReportPageTest, OrdersOfDifferentCorporaHaveNoCommonRandomOrder) {
  std::vector<ReportRun> runs = SyntheticRuns();
  EXPECT_THAT(RenderReport(runs), HasSubstr("random order: "));
  runs[0].spec.set_dataset_dir("/another");
  runs[0].ordering_report_json =
      R"({"order":"RANDOM","random_adjacent_cosine":0.7,"random_domain_purity":0.9})";
  EXPECT_THAT(RenderReport(runs), Not(HasSubstr("random order: ")));
}

TEST(ReportPageTest, TwelveRunsHaveDistinctColors) {
  std::vector<ReportRun> runs;
  for (int i = 0; i < 12; ++i) {
    runs.push_back(SyntheticRun("run " + std::to_string(i), i % 2 ? 8 : 1, 0.01 * i, "RANDOM"));
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, HasSubstr("c3 dashed"));
  EXPECT_LT(html.size(), 3'500'000u) << "has to fit in one gRPC message";
}

TEST(ReportPageTest, RendersAPageWithoutRunsAndWithEmptyRuns) {
  ExpectGoodPage(RenderReport({}));
  const std::vector<ReportRun> runs(2);
  ExpectGoodPage(RenderReport(runs));
}

TEST(ReportPageTest, ValuesThatAreNotFiniteAreDashes) {
  std::vector<ReportRun> runs = SyntheticRuns();
  for (ReportRun& run : runs) {
    for (v1::StepMetrics& step : run.metrics) {
      step.set_loss(std::nan(""));
      step.set_loss_after_first_segment(std::numeric_limits<double>::infinity());
      step.set_tokens_per_second(std::nan(""));
    }
    run.evaluation->mutable_total()->set_perplexity_after_first_segment(std::nan(""));
    run.ordering_report_json = "{\"adjacent_cosine\":";
  }
  const std::string html = RenderReport(runs);
  ExpectGoodPage(html);
  EXPECT_THAT(html, HasSubstr("<td>\xE2\x80\x93</td>"));
  EXPECT_THAT(html, Not(HasSubstr("<h2>Training loss</h2>")));
}

}  // namespace report_page_test
}  // namespace braid
