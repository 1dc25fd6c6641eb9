// The pages of analyses of layers and of experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "braid/v1/analysis.pb.h"
#include "report/experts_page.h"
#include "report/layers_page.h"
#include "tests/report/page_checks.h"

namespace braid {
namespace analysis_pages_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

v1::LayerAnalysis Layers(int num_layers) {
  v1::LayerAnalysis analysis;
  analysis.set_step(480);
  for (const char* name : {"length", "words", "swapped_words", "swapped_clauses"}) {
    v1::ProbeResult* const probe = analysis.add_probes();
    probe->set_name(name);
    probe->set_num_classes(6);
    probe->set_num_training_sentences(8000);
    probe->set_num_test_sentences(2000);
    probe->set_majority(1.0 / 6);
    for (int layer = -1; layer < num_layers; ++layer) {
      v1::LayerProbe* const at = probe->add_layers();
      at->set_layer(layer);
      at->set_accuracy(.5 + .01 * layer + .1 * analysis.probes_size());
      at->mutable_interval()->set_low(at->accuracy() - .01);
      at->mutable_interval()->set_high(at->accuracy() + .01);
    }
  }
  for (const char* task : {"sst2", "agnews & co"}) {
    v1::TaskLayerChoices* const choices = analysis.add_choices();
    choices->set_task(task);
    choices->set_num_prompts(500);
    for (int layer = 0; layer < num_layers; ++layer) {
      v1::LayerChoices* const row = choices->add_layers();
      row->set_layer(layer);
      for (int other = 0; other < num_layers; ++other) row->add_shares(1.0 / num_layers);
    }
  }
  return analysis;
}

TEST(LayersPageTest, ShowsEveryProbeLayerAndTask) {
  const std::string html = RenderLayersPage(Layers(6), "moe <run-000002>");
  ExpectGoodPage(html);
  ExpectNoOverlap(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<h1>Layers of moe &lt;run-000002&gt;</h1>"),
                          HasSubstr("After 480 steps"), HasSubstr("<td>embedding</td>"),
                          HasSubstr("<td>5</td>"), HasSubstr("most frequent class"),
                          HasSubstr("<b>swapped_clauses</b>"), HasSubstr("agnews &amp; co, 500"),
                          HasSubstr("layer 5, layer 2: 0.167")));
}

TEST(LayersPageTest, LeavesOutWhatWasNotMeasured) {
  v1::LayerAnalysis choices = Layers(48);
  choices.clear_probes();
  const std::string html = RenderLayersPage(choices, "model");
  ExpectGoodPage(html);
  EXPECT_THAT(html, Not(HasSubstr("What the layers encode")));
  ExpectGoodPage(RenderLayersPage({}, ""));
}

TEST(ExpertsPageTest, ShowsSharesUseAndDrift) {
  v1::ExpertActivity activity;
  activity.set_num_experts(8);
  activity.set_active_experts(2);
  activity.set_num_tokens(12345);
  for (int layer = 0; layer < 4; ++layer) {
    v1::LayerExpertActivity* const at = activity.add_layers();
    at->set_layer(layer);
    at->set_mass_share(.4);
    at->set_random_mass_share(.3);
    for (const char* name : {"prose", "sst2"}) {
      v1::DomainRouting* const domain = at->add_domains();
      domain->set_domain(name);
      for (int e = 0; e < 8; ++e) domain->add_weights(e / 28.0);
    }
    v1::ChoiceDrift* const drift = activity.add_drift();
    drift->set_layer(layer);
    drift->set_from_step(100);
    drift->set_to_step(200);
    drift->set_changed_share(.0625);
  }
  const std::string html = RenderExpertsPage(activity, "run-000001");
  ExpectGoodPage(html);
  ExpectNoOverlap(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<h1>Experts of run-000001</h1>"), HasSubstr("100 to 200"),
                          HasSubstr("sst2, expert 7: 0.250"), HasSubstr("2 of 8 experts")));
  activity.clear_drift();
  EXPECT_THAT(RenderExpertsPage(activity, ""), Not(HasSubstr("Change of choices")));
  EXPECT_THAT(html, HasSubstr("choose 2 of 8 experts"));
  activity.set_varying_experts(true);
  EXPECT_THAT(RenderExpertsPage(activity, ""), HasSubstr("choose a varying number of 8 experts"));
  ExpectGoodPage(RenderExpertsPage({}, ""));
}

}  // namespace analysis_pages_test
}  // namespace braid
