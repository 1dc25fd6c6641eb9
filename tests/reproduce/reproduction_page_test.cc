#include "reproduce/reproduction_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/report_style.h"
#include "reproduce/effect_text.h"
#include "reproduce/lory/claims.h"
#include "reproduce/lory/lory_experiment.h"
#include "reproduce/order/order_experiment.h"
#include "reproduce/page_sections.h"
#include "reproduce/page_style.h"
#include "tests/report/page_checks.h"
#include "tests/reproduce/fabricated_reproduction.h"

namespace braid {
namespace reproduction_page_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kDash[] = "\xE2\x80\x93";

const Reproduction& Fabricated() {
  static const auto* const reproduction = new Reproduction(FabricateReproduction({}));
  return *reproduction;
}

// Returns the text from the start of the element with this id to the next section.
std::string SectionOf(const std::string& html, const std::string& id) {
  const size_t start = html.find(absl::StrCat("<section id=\"", id, "\">"));
  if (start == std::string::npos) return "";
  return html.substr(start, html.find("</section>", start) - start);
}

void ExpectTextsInside(const std::string& html) {
  for (const std::string& plot : PlotsOf(html)) {
    double x, y, width, height;
    ASSERT_EQ(
        std::sscanf(Attribute(plot, "viewBox").c_str(), "%lf %lf %lf %lf", &x, &y, &width, &height),
        4);
    for (const Box& box : BoxesOf(plot)) {
      EXPECT_TRUE(box.left >= 0 && box.right <= width && box.bottom <= height) << box.text;
    }
  }
}

void ExpectGoodReproduction(const std::string& html) {
  ExpectGoodPage(html);
  ExpectNoOverlap(html);
  ExpectTextsInside(html);
  EXPECT_FALSE(std::regex_search(html, std::regex("=\"[^\"]{0,40}\\b(nan|inf)\\b")));
  EXPECT_THAT(html,
              AllOf(Not(HasSubstr(">nan<")), Not(HasSubstr("@import")), Not(HasSubstr("<img"))));
}

TEST(ReproductionPageTest, ShowsEveryClaimWithItsVerdictAndNumbers) {
  const Reproduction& reproduction = Fabricated();
  const std::string html = RenderReproduction(reproduction);
  ExpectGoodReproduction(html);
  const std::string verdicts = SectionOf(html, "verdicts");
  for (const Claim& claim : reproduction.claims) {
    SCOPED_TRACE(claim.name);
    EXPECT_THAT(verdicts, HasSubstr(EscapeHtml(ClaimTitle(claim))));
    EXPECT_THAT(verdicts, HasSubstr(EscapeHtml(claim.paper_result)));
    const std::string section = SectionOf(html, ClaimId(claim));
    EXPECT_THAT(section, HasSubstr(EscapeHtml(claim.sentence)));
    EXPECT_THAT(section, HasSubstr("</svg>" + VerdictName(claim.verdict) + "</span>"));
    for (const ClaimPart& part : claim.parts) {
      ASSERT_TRUE(part.estimate) << part.name << ": " << part.missing;
      EXPECT_THAT(section, HasSubstr(absl::StrCat("<td>", EscapeHtml(part.name), "</td><td>",
                                                  EffectNumber(part.estimate->effect))));
    }
  }
}

TEST(ReproductionPageTest, CountsVerdicts) {
  Reproduction reproduction{.experiment = &LoryExperiment(), .claims = EvaluateLoryClaims({}, {})};
  reproduction.claims[0].verdict = Verdict::kShown;
  reproduction.claims[3].verdict = Verdict::kShown;
  reproduction.claims[4].verdict = Verdict::kNotShown;
  EXPECT_THAT(RenderReproduction(reproduction),
              AllOf(HasSubstr(">2 shown<"), HasSubstr(">1 not shown<"),
                    HasSubstr(">0 inconclusive<"), HasSubstr(">7 not measured<")));
}

TEST(ReproductionPageTest, MuchLargerEffectsHaveTheirOwnScale) {
  const std::string effects = SectionOf(RenderReproduction(Fabricated()), "effects");
  const std::string heading = "<h3>Claim 9, on its own scale, nats per token</h3>";
  const size_t start = effects.find(heading);
  ASSERT_NE(start, std::string::npos);
  const std::string larger = effects.substr(start, effects.find("</figure>", start) - start);
  EXPECT_THAT(larger,
              AllOf(HasSubstr("9. The decisions of the routers"), Not(HasSubstr("1. Soft MoE"))));
  const std::string usual = effects.substr(0, start);
  EXPECT_THAT(usual,
              AllOf(HasSubstr("1. Soft MoE"), Not(HasSubstr("9. The decisions of the routers"))));
}

TEST(ReproductionPageTest, TellsOnlyWhatTheExperimentHas) {
  Reproduction reproduction = Fabricated();
  const std::string whole = RenderReproduction(reproduction);
  EXPECT_THAT(whole, AllOf(HasSubstr("then upcycling"), HasSubstr("segment length S"),
                           HasSubstr("smaller than those of the paper")));
  reproduction.spec.mutable_upcycling()->set_dense_fraction(0);
  EXPECT_THAT(RenderReproduction(reproduction), Not(HasSubstr("then upcycling")));
  EXPECT_THAT(RenderReproduction({.experiment = &OrderExperiment()}),
              Not(HasSubstr("those of the paper")));
}

TEST(ReproductionPageTest, SmallNegativeEffectsAreZero) {
  EXPECT_EQ(EffectNumber(-0.0004), "0.000");
  EXPECT_EQ(EffectNumber(-0.0006), "-0.001");
  EXPECT_EQ(IntervalText({.low = -0.0001, .high = 0.2, .has_interval = true}), "[0.000, 0.200]");
  EXPECT_EQ(IntervalText({.low = -0.0001, .high = 0.2}), "");
}

TEST(ReproductionPageTest, DrawsTheSeriesOfEachClaim) {
  const std::string html = RenderReproduction(Fabricated());
  const auto expect = [&](const char* id, const std::vector<std::string>& names) {
    const std::string section = SectionOf(html, id);
    for (const std::string& name : names) EXPECT_THAT(section, HasSubstr(name)) << id;
  };
  expect("claim-1", {"<h3>Training loss</h3>", "<h3>Training loss, dense minus each</h3>"});
  expect("claim-2", {"<h3>Training loss, dense minus each</h3>"});
  expect("claim-3", {"similarity order</span>", "random order</span>"});
  expect("claim-5", {"<h3>Experts in use over training</h3>", "no-warmup-experts-16</span>"});
  expect("claim-6", {"by layer</h3>", "Routing weights, layer 3", "Shades from 0.00"});
  for (int claim = 1; claim <= 10; ++claim) {
    expect(absl::StrCat("claim-", claim).c_str(), {"Effects of claim "});
  }
}

TEST(ReproductionPageTest, ShowsTheSetup) {
  const Reproduction& reproduction = Fabricated();
  const std::string setup = SectionOf(RenderReproduction(reproduction), "setup");
  EXPECT_THAT(setup, AllOf(HasSubstr(EscapeHtml(reproduction.command)), HasSubstr("1 h 23 min"),
                           HasSubstr("42 with 3 seeds"), HasSubstr("5.73M tokens"),
                           HasSubstr(EscapeHtml(reproduction.notes[0])),
                           HasSubstr("<code>/data/corpus.jsonl</code>"),
                           HasSubstr("<code>/home/datasets/similarity</code>"),
                           HasSubstr("FFN width F</th><td>256<"), HasSubstr("<td>40</td>"),
                           HasSubstr("0.006 after a linear warm-up of 5\xC2\xA0% of")));
  EXPECT_THAT(setup, Not(HasSubstr("with all experts"))) << "only token-routed models";
  EXPECT_THAT(setup, HasSubstr("in nats per token without first segments, the held-out loss"));
  EXPECT_THAT(SectionOf(RenderReproduction(reproduction), "reading"),
              HasSubstr("Both exclude the first segment of each sequence, which is routed on"));
  for (const ReproducedRun& run : reproduction.runs) EXPECT_THAT(setup, HasSubstr(run.name));
  for (const DomainProfile& domain : reproduction.domains) {
    EXPECT_THAT(setup, HasSubstr("<td>" + domain.name + "</td>"));
  }
}

TEST(ReproductionPageTest, ShowsTheLengthOfFineTuning) {
  Reproduction reproduction = Fabricated();
  const auto setup = [&] { return SectionOf(RenderReproduction(reproduction), "setup"); };
  EXPECT_THAT(setup(), Not(HasSubstr("fine-tuning")));
  reproduction.epochs = 2;
  EXPECT_THAT(setup(), HasSubstr("fine-tuning</th><td>2 passes over the examples of a task<"));
  reproduction.tuning_steps = 50;
  EXPECT_THAT(setup(), HasSubstr("fine-tuning</th><td>50 steps<"));
}

TEST(ReproductionPageTest, NamesTheLengthOfRunsThatIsNotOfAllArms) {
  const auto setup = [](const std::string& arm) {
    return SectionOf(RenderReproduction({.experiment = &OrderExperiment(),
                                         .num_steps = 480,
                                         .tokens_of_run = 983040,
                                         .runs = {{.name = "run", .arm = arm}}}),
                     "setup");
  };
  EXPECT_THAT(setup("moe-4-open"), HasSubstr("480 steps, 983k tokens<"));
  EXPECT_THAT(setup("moe-64-longest"), HasSubstr("480 steps, 983k tokens, unless the description"));
}

TEST(ReproductionPageTest, EscapesExternalText) {
  const std::string evil = "</title><script>alert('x')</script>&\"\xff";
  Fabrication fabrication{.num_seeds = 1, .num_steps = 50, .domains = {evil, "<b>", "a", "b"}};
  Reproduction reproduction = FabricateReproduction(fabrication);
  reproduction.command = reproduction.plan = reproduction.version = evil;
  reproduction.notes = {evil};
  for (ReproducedRun& run : reproduction.runs) run.name = run.arm = run.id = evil;
  for (Claim& claim : reproduction.claims) {
    claim.source += evil;
    for (ClaimPart& part : claim.parts) part.unit += evil;
    claim.parts.back().estimate.reset();
    claim.parts.back().missing = evil;
  }
  const std::string html = RenderReproduction(reproduction);
  ExpectGoodPage(html);
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
}

TEST(ReproductionPageTest, NumbersThatAreNotFiniteAreDashes) {
  Reproduction reproduction = Fabricated();
  reproduction.seconds = reproduction.domains[0].similarity = std::nan("");
  reproduction.runs[0].heldout_loss = std::numeric_limits<double>::infinity();
  for (Claim& claim : reproduction.claims) {
    ClaimPart& part = claim.parts[0];
    part.estimate->effect = part.estimate->by_seed[0] = std::nan("");
    part.estimate->high = std::numeric_limits<double>::infinity();
    for (ClaimSeries& series : claim.series) series.values[0] = std::nan("");
    // The text of the effect in the sentence of the claim.
    claim.sentence = absl::StrCat(part.name, ": ", PartText(part));
    EXPECT_THAT(claim.sentence, AllOf(HasSubstr(absl::StrCat(": ", kDash, " ", part.unit)),
                                      Not(HasSubstr("nan")), Not(HasSubstr("inf "))));
  }
  const std::string html = RenderReproduction(reproduction);
  ExpectGoodReproduction(html);
  EXPECT_THAT(SectionOf(html, "claim-1"), HasSubstr(absl::StrCat("<td>held-out</td><td>", kDash)));
  EXPECT_THAT(SectionOf(html, "setup"),
              AllOf(HasSubstr(absl::StrCat("<td>", kDash, "</td></tr>"))));
}

TEST(ReproductionPageTest, MissingEffectsHaveAReason) {
  const Reproduction reproduction{.experiment = &LoryExperiment(),
                                  .claims = EvaluateLoryClaims({}, {})};
  const std::string html = RenderReproduction(reproduction);
  ExpectGoodReproduction(html);
  EXPECT_THAT(html, Not(HasSubstr("<section id=\"effects\">"))) << "there is none";
  for (const Claim& claim : reproduction.claims) {
    const std::string section = SectionOf(html, ClaimId(claim));
    EXPECT_THAT(section, Not(HasSubstr("class=\"plot\"")));
    for (const ClaimPart& part : claim.parts) {
      EXPECT_THAT(section, HasSubstr(EscapeHtml(part.missing))) << part.name;
    }
  }
}

TEST(ReproductionPageTest, OneSeedHasAWarning) {
  const std::string one = RenderReproduction(FabricateReproduction({.num_seeds = 1}));
  ExpectGoodReproduction(one);
  EXPECT_THAT(one, AllOf(HasSubstr("measured with one seed."), HasSubstr("class=\"allowance\""),
                         HasSubstr("14 with 1 seed<"),
                         HasSubstr(", 2 of them because there is no second seed<")));
  EXPECT_THAT(RenderReproduction(Fabricated()),
              AllOf(Not(HasSubstr("measured with one seed.")), HasSubstr("class=\"seed\""),
                    Not(HasSubstr("class=\"allowance\""))));
}

TEST(ReproductionPageTest, EffectsOfOneSeedAmongOthersAreNamed) {
  Reproduction reproduction = Fabricated();
  reproduction.claims[2].parts[1].estimate->by_seed.resize(1);
  const std::string html = RenderReproduction(reproduction);
  ExpectGoodReproduction(html);
  EXPECT_THAT(html, AllOf(HasSubstr("with one seed (claims 3)"), HasSubstr("42 with 3 seeds"),
                          HasSubstr("allowance for one seed"), HasSubstr("single seeds<")));
}

TEST(ReproductionPageTest, SharesAreOnlyInTables) {
  const std::string section = SectionOf(RenderReproduction(Fabricated()), "claim-5");
  EXPECT_THAT(section, AllOf(HasSubstr("<td>in use at the end, moe</td>"),
                             HasSubstr("<title>more with warm-up, 8 experts:"),
                             Not(HasSubstr("<title>in use at the end, moe:"))));
}

TEST(ReproductionPageTest, TitlesOfClaimsAreWrappedNotCut) {
  const Reproduction& reproduction = Fabricated();
  const std::string effects = SectionOf(RenderReproduction(reproduction), "effects");
  const std::regex group("class=\"group over\">([^<]*)</text>");
  std::string titles;
  for (std::sregex_iterator i(effects.begin(), effects.end(), group), end; i != end; ++i) {
    titles += (*i)[1].str() + " ";
  }
  for (const Claim& claim : reproduction.claims) {
    EXPECT_THAT(titles, HasSubstr(EscapeHtml(ClaimTitle(claim)))) << "of all lines together";
  }
  EXPECT_THAT(titles, Not(HasSubstr("\xE2\x80\xA6")));
}

TEST(ReproductionPageTest, CautionsAreNextToTheVerdict) {
  Reproduction reproduction = Fabricated();
  reproduction.claims[3].cautions = {"Expert choice <is> not tuned."};
  const std::string html = RenderReproduction(reproduction);
  for (const char* id : {"verdicts", "claim-4"}) {
    EXPECT_THAT(SectionOf(html, id), HasSubstr("Expert choice &lt;is&gt; not tuned.")) << id;
  }
}

TEST(ReproductionPageTest, RendersAPageWithoutResults) {
  ExpectGoodReproduction(RenderReproduction({.experiment = &LoryExperiment()}));
  ExpectGoodReproduction(
      RenderReproduction({.experiment = &LoryExperiment(), .claims = {Claim{.number = 1}}}));
}

TEST(ReproductionPageTest, LongNamesStayInTheirPlots) {
  Fabrication fabrication{.num_steps = 50, .domains = {}};
  for (int i = 0; i < 12; ++i) {
    fabrication.domains.push_back(
        absl::StrCat("a corpus of minutes of the meetings of committee ", i));
  }
  ExpectGoodReproduction(RenderReproduction(FabricateReproduction(fabrication)));
}

TEST(ReproductionPageTest, ColorsOfVerdictsAreReadableInEveryTheme) {
  const auto themes = Themes(kReportStyle);
  const auto verdicts = Themes(kReproductionStyle);
  ASSERT_EQ(verdicts.size(), themes.size());
  for (size_t i = 0; i < themes.size(); ++i) {
    for (const char* verdict : {"shown", "not-shown", "inconclusive"}) {
      const std::string& color = verdicts[i].at(verdict);
      EXPECT_GE(Contrast(color, themes[i].at("page")), 4.5) << verdict;
      EXPECT_GE(Contrast(color, themes[i].at("mark")), 3) << verdict;
    }
    EXPECT_GE(Contrast(themes[i].at("text"), themes[i].at("mark")), 4.5);
  }
  EXPECT_EQ(verdicts[0], verdicts[2]) << "paper is light";
}

}  // namespace reproduction_page_test
}  // namespace braid
