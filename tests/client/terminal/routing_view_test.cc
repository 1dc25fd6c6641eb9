#include "client/terminal/routing_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "braid/v1/analysis.pb.h"

namespace braid {
namespace routing_view_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// One layer, two domains: "prose" prefers expert 1, the other one the last.
v1::RoutingAnalysis Analysis(int experts) {
  v1::RoutingAnalysis analysis;
  analysis.set_num_experts(experts);
  v1::LayerRoutingAnalysis* layer = analysis.add_layers();
  layer->set_layer(3);
  layer->set_divergence(0.25);
  layer->set_effective_experts(1.5);
  for (const char* name : {"prose", "a_domain_with_a_name_that_is_far_too_long_ä"}) {
    v1::DomainRouting* domain = layer->add_domains();
    domain->set_domain(name);
    domain->set_entropy(0.5);
    const int favorite = layer->domains_size() == 1 ? 1 : experts - 1;
    for (int e = 0; e < experts; ++e) domain->add_weights(e == favorite ? 0.8 : 0.2 / experts);
  }
  v1::ExpertText* text = layer->add_texts()->add_texts();
  text->set_domain("prose");
  text->set_document_number(12);
  text->set_weight(0.75);
  text->set_text("once\nupon   a time " + std::string(200, 'x'));
  return analysis;
}

int64_t Columns(const std::string& line) {
  return std::ranges::count_if(
      line, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

TEST(RoutingViewTest, LinesFitIntoTheTerminalForAnyNumberOfExperts) {
  for (const int experts : {1, 2, 8, 16, 32, 33, 64, 128}) {
    for (const bool ascii : {false, true}) {
      for (const std::string& line :
           RoutingLines(Analysis(experts), {.ascii = ascii, .texts = true})) {
        EXPECT_LE(Columns(line), 80) << line;
        EXPECT_EQ(ascii && absl::StrContains(line, "█"), false);
      }
    }
  }
}

TEST(RoutingViewTest, ShadesExpertsByWeight) {
  const std::vector<std::string> lines = RoutingLines(Analysis(8), {.ascii = true});
  EXPECT_EQ(lines[0],
            "layer 3   divergence 0.250   entropy 0.00 of 2.08   effective experts 1.5 of 8");
  EXPECT_EQ(lines[1], "                 0   1   2   3   4   5   6   7     entropy  top experts");
  EXPECT_EQ(lines[2],
            "prose                ####                             0.50  1 (80 %), 0 (2 %)");
  EXPECT_THAT(lines[3], AllOf(HasSubstr("a_domain_with_a "), HasSubstr("7 (80 %)")));
  EXPECT_THAT(lines.back(), HasSubstr("# from 64 %"));
  EXPECT_THAT(RoutingLines(Analysis(8), {})[2], HasSubstr("████ "));
}

TEST(RoutingViewTest, AdjacentExpertsShareColumns) {
  const std::vector<std::string> lines = RoutingLines(Analysis(64), {.ascii = true});
  EXPECT_THAT(lines.back(), HasSubstr("the maximum of 2 adjacent experts"));
  EXPECT_THAT(lines[2], HasSubstr("#"));
}

TEST(RoutingViewTest, ShowsTopActivatingSegments) {
  const std::string with = absl::StrJoin(RoutingLines(Analysis(4), {.texts = true}), "\n");
  EXPECT_THAT(with, HasSubstr("0  0.75  prose/12  once upon a time xxx"));
  EXPECT_THAT(absl::StrJoin(RoutingLines(Analysis(4), {}), "\n"), Not(HasSubstr("once upon")));
}

}  // namespace routing_view_test
}  // namespace braid
