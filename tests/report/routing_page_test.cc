#include "report/routing_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "braid/v1/analysis.pb.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace routing_page_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void AddLayer(int number, int experts, v1::RoutingAnalysis* analysis) {
  v1::LayerRoutingAnalysis* layer = analysis->add_layers();
  layer->set_layer(number);
  layer->set_divergence(0.01 * number);
  layer->set_entropy(1);
  layer->set_effective_experts(experts * 0.75);
  for (const char* name : {"code", "law & order", "prose"}) {
    v1::DomainRouting* domain = layer->add_domains();
    domain->set_domain(name);
    domain->set_num_decisions(100);
    domain->set_entropy(0.5);
    for (int e = 0; e < experts; ++e) domain->add_weights(1.0 / experts);
  }
  for (int e = 0; e < experts; ++e) {
    layer->add_active_share(0.5 / (e + 1));
    for (int other = 0; other < experts; ++other) {
      layer->add_expert_similarity(e == other ? 1 : 0.5);
    }
    v1::ExpertText* text = layer->add_texts()->add_texts();
    layer->mutable_texts(e)->set_expert(e);
    text->set_domain("prose");
    text->set_weight(0.9);
    text->set_text("</div><script>alert('x')</script>\xff");
  }
}

v1::RoutingAnalysis Analysis(int layers, int experts) {
  v1::RoutingAnalysis analysis;
  analysis.set_step(480);
  analysis.set_num_experts(experts);
  for (int i = 0; i < layers; ++i) AddLayer(2 * i + 1, experts, &analysis);
  for (int step = 10; step <= 50; step += 10) {
    for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
      v1::UtilizationPoint* point = analysis.add_utilization();
      point->set_tokens(1000 * step);
      point->set_layer(layer.layer());
      point->set_effective_experts(2);
      point->set_active_experts(3);
      point->set_entropy(1);
    }
  }
  return analysis;
}

// Python's XML parser accepts the page, and nothing in it needs a network or a script.
void ExpectGoodPage(const std::string& html) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "page.html";
  PutFile(path, html.substr(html.find("<html")));
  const std::string command =
      absl::StrCat("'", BRAID_PYTHON,
                   "' -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' '", path, "'");
  EXPECT_EQ(std::system(command.c_str()), 0) << html.substr(0, 4000);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("https:")),
                          Not(HasSubstr("url(")), Not(HasSubstr("nan"))));
}

TEST(RoutingPageTest, NamesEveryDomainLayerAndExpert) {
  const v1::RoutingAnalysis analysis = Analysis(4, 8);
  const std::string html = RenderRoutingPage(analysis, "moe <run-000002>");
  ExpectGoodPage(html);
  EXPECT_THAT(html, HasSubstr("<h1>Routing of moe &lt;run-000002&gt;</h1>"));
  for (const char* heading :
       {"Layers", "Routing by domain", "Divergence by layer", "Entropy of decisions",
        "Active experts", "Expert utilization over training", "Similarity of experts",
        "Top-activating segments"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("<h2>", heading, "</h2>")));
  }
  for (const char* domain : {"code", "law &amp; order", "prose"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("<td>", domain, "</td>")));
  }
  for (const int layer : {1, 3, 5, 7}) {
    EXPECT_THAT(html, AllOf(HasSubstr(absl::StrCat("<figcaption>layer ", layer, ", divergence")),
                            HasSubstr(absl::StrCat("<figcaption>layer ", layer, "</figcaption>")),
                            HasSubstr(absl::StrCat("<summary>layer ", layer, "</summary>"))));
  }
  for (int expert = 0; expert < 8; ++expert) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("<tr><td>", expert, "</td><td>0.900</td>")));
  }
  EXPECT_THAT(html, Not(HasSubstr("layer 0")));
}

TEST(RoutingPageTest, DrawsModelsOfEverySize) {
  for (const auto& [layers, experts] : {std::pair(1, 2), {1, 4}, {16, 32}, {48, 8}}) {
    ExpectGoodPage(RenderRoutingPage(Analysis(layers, experts), "model"));
  }
  EXPECT_THAT(RenderRoutingPage(Analysis(48, 4), "model"), HasSubstr("Of 48 layers, 16 are shown"));
}

TEST(RoutingPageTest, LeavesOutSectionsWithoutData) {
  v1::RoutingAnalysis analysis = Analysis(1, 4);
  analysis.clear_utilization();
  const std::string html = RenderRoutingPage(analysis, "checkpoint");
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("<h2>Expert utilization")),
                          Not(HasSubstr("<h2>Divergence by layer"))));
  ExpectGoodPage(RenderRoutingPage({}, ""));
}

TEST(RoutingPageTest, ValuesThatAreNotFiniteAreLeftOut) {
  v1::RoutingAnalysis analysis = Analysis(2, 4);
  for (v1::LayerRoutingAnalysis& layer : *analysis.mutable_layers()) {
    layer.set_divergence(std::nan(""));
    layer.set_entropy(std::nan(""));
    layer.mutable_domains(0)->set_entropy(std::nan(""));
    layer.mutable_domains(0)->set_weights(1, std::nan(""));
    layer.set_expert_similarity(4, std::nan(""));
  }
  ExpectGoodPage(RenderRoutingPage(analysis, "model"));
}

TEST(RoutingPageTest, ScalesAreNotStretchedByASingleWeight) {
  v1::RoutingAnalysis analysis = Analysis(16, 4);
  const std::string even = RenderRoutingPage(analysis, "model");
  EXPECT_THAT(even, AllOf(HasSubstr("aria-label=\"Shades from 0.00 to 0.25\""),
                          HasSubstr("uniform 0.250"), Not(HasSubstr("\xE2\x89\xA5 0.25"))));
  analysis.mutable_layers(3)->mutable_domains(1)->set_weights(2, 0.97);
  const std::string html = RenderRoutingPage(analysis, "model");
  ExpectGoodPage(html);
  EXPECT_THAT(html, AllOf(HasSubstr("\xE2\x89\xA5 0.25"), HasSubstr("0.25 and above")));
}

TEST(RoutingPageTest, DivergenceHasAPlotForNarrowPages) {
  const std::string html = RenderRoutingPage(Analysis(4, 4), "model");
  const size_t start = html.find("<h2>Divergence by layer");
  EXPECT_THAT(html.substr(start, html.find("</section>", start) - start),
              HasSubstr("<div class=\"narrow\">"));
}

}  // namespace routing_page_test
}  // namespace braid
