// Checks of the appearance of pages: contrast, overlaps, legends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "report/report_data.h"
#include "report/report_page.h"
#include "report/report_style.h"
#include "report/svg_plot.h"
#include "tests/report/page_checks.h"
#include "tests/report/synthetic_run.h"

namespace braid {
namespace report_look_test {

using testing::HasSubstr;

std::vector<ReportRun> TwelveRuns() {
  std::vector<ReportRun> runs;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "variant-" + std::to_string(i) + (i == 7 ? "-with-a-long-name" : "");
    runs.push_back(SyntheticRun(name + " (run)", i > 0 ? 8 : 1, 0.01 * i, "SIMILARITY"));
    runs.back().spec.set_name(name);
    for (v1::DomainEvaluation& domain : *runs.back().evaluation->mutable_domains()) {
      const double value = domain.perplexity_after_first_segment();
      domain.mutable_perplexity_after_first_segment_interval()->set_low(0.9 * value);
      domain.mutable_perplexity_after_first_segment_interval()->set_high(1.1 * value);
    }
  }
  return runs;
}

TEST(ReportLookTest, ColorsContrastWithThePageInEveryTheme) {
  const auto themes = Themes(kReportStyle);
  ASSERT_EQ(themes.size(), 3u);
  for (auto theme : themes) {
    for (int color = 0; color < kNumColors; ++color) {
      EXPECT_GE(Contrast(theme["c" + std::to_string(color)], theme["page"]), 3) << color;
    }
    for (const char* text : {"text", "muted", "link"}) {
      EXPECT_GE(Contrast(theme[text], theme["page"]), 4.5) << text;
      EXPECT_GE(Contrast(theme[text], theme["soft"]), 4.5) << text;
    }
  }
  EXPECT_EQ(themes[0].at("c1"), themes[2].at("c1")) << "paper is light";
}

// The first column of a table stays in view, so it must leave space for the others.
TEST(ReportLookTest, NamesOfRunsHaveALimitedWidth) {
  const std::string style = kReportStyle;
  const size_t rule = style.find("\n.run {");
  ASSERT_NE(rule, std::string::npos);
  EXPECT_THAT(style.substr(rule, style.find('}', rule) - rule),
              testing::AllOf(HasSubstr(" max-width: "), HasSubstr("overflow-wrap: anywhere")));
}

// Returns the luminance of the background under the color of cells.
std::string Blend(const std::string& over, const std::string& page, double opacity) {
  std::string out = "#";
  for (int i = 0; i < 3; ++i) {
    const double a = std::stoi(over.substr(1 + 2 * i, 2), nullptr, 16);
    const double b = std::stoi(page.substr(1 + 2 * i, 2), nullptr, 16);
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x",
                  static_cast<int>(std::lround(opacity * a + (1 - opacity) * b)));
    out += hex;
  }
  return out;
}

TEST(ReportLookTest, NumbersContrastWithCellsOfEveryShade) {
  const auto themes = Themes(kReportStyle);
  ASSERT_EQ(themes.size(), 3u);
  for (auto theme : themes) {
    for (double share = 0; share <= 1; share += 0.05) {
      const std::string cell = Blend(theme["heat"], theme["page"], kFullShade * share);
      EXPECT_GE(Contrast(theme["text"], cell), 4.5) << cell;
    }
  }
}

TEST(ReportLookTest, TextsOfAPlotDoNotOverlap) {
  EXPECT_GT(ExpectNoOverlap(RenderReport(SyntheticRuns())), 0u);
  EXPECT_GT(ExpectNoOverlap(RenderReport(TwelveRuns())), 0u);
}

// Returns the width and height of a plot.
std::pair<double, double> SizeOf(const std::string& plot) {
  double x, y, width = 0, height = 0;
  const std::string box = Attribute(plot, "viewBox");
  EXPECT_EQ(std::sscanf(box.c_str(), "%lf %lf %lf %lf", &x, &y, &width, &height), 4);
  return {width, height};
}

TEST(ReportLookTest, ReadoutsStayWithinTheirPlots) {
  std::vector<ReportRun> runs = TwelveRuns();
  for (ReportRun& run : runs) run.spec.set_name("a name as long as that - " + run.spec.name());
  int num_boxes = 0;
  for (const std::string& plot : PlotsOf(RenderReport(runs))) {
    const auto [width, height] = SizeOf(plot);
    const std::string kBox = "<rect class=\"box\"";
    for (size_t at = plot.find(kBox); at != std::string::npos; at = plot.find(kBox, at + 1)) {
      const std::string tag = plot.substr(at, plot.find('>', at) - at);
      const double left = std::stod(Attribute(tag, "x")), top = std::stod(Attribute(tag, "y"));
      EXPECT_GE(left, 0);
      EXPECT_LE(left + std::stod(Attribute(tag, "width")), width);
      EXPECT_LE(top + std::stod(Attribute(tag, "height")), height);
      ++num_boxes;
    }
  }
  EXPECT_GT(num_boxes, 100);
}

// Returns about how wide a text is that repeats X or one East Asian character.
double WidthOfRepeated(const std::string& text, double font_size) {
  const double em = text.starts_with("X") ? 0.66 : 1;
  return em * font_size * static_cast<double>(CountCharacters(text));
}

TEST(ReportLookTest, LabelsOfWideCharactersStayWithinTheirPlots) {
  std::vector<ReportRun> runs = TwelveRuns();
  std::string wide;
  for (int i = 0; i < 60; ++i) wide += "\xE5\xAD\xA6";
  runs[0].spec.set_name(wide);
  runs[1].spec.set_name(std::string(90, 'X'));
  int num_labels = 0;
  for (const std::string& plot : PlotsOf(RenderReport(runs))) {
    const double width = SizeOf(plot).first;
    for (size_t at = plot.find("<text x="); at != std::string::npos;
         at = plot.find("<text x=", at + 1)) {
      const size_t end = plot.find('>', at);
      const std::string tag = plot.substr(at, end - at);
      const std::string text = plot.substr(end + 1, plot.find('<', end) - end - 1);
      if (!text.starts_with("\xE5\xAD\xA6") && !text.starts_with("XX")) continue;
      const double at_x = std::stod(Attribute(tag, "x"));
      if (Attribute(tag, "text-anchor") == "end") {
        EXPECT_GE(at_x - WidthOfRepeated(text, 12), 0) << text;
      } else {
        EXPECT_LE(at_x + WidthOfRepeated(text, 11), width) << text;
      }
      ++num_labels;
    }
  }
  EXPECT_GE(num_labels, 6);
}

TEST(ReportLookTest, LongNamesBreakOutsideOfTablesAndInTheirHeaders) {
  const std::string style = kReportStyle;
  const size_t body = style.find("\nbody {");
  ASSERT_NE(body, std::string::npos);
  EXPECT_THAT(style.substr(body, style.find('}', body) - body),
              HasSubstr("overflow-wrap: break-word"));
  std::vector<ReportRun> runs = SyntheticRuns();
  const std::string name(120, 'n');
  runs[1].spec.set_name(name);
  const std::string html = RenderReport(runs);
  const size_t values = html.find("<summary>Values</summary>");
  ASSERT_NE(values, std::string::npos);
  EXPECT_THAT(
      html.substr(values, html.find("</thead>", values) - values),
      HasSubstr("<span class=\"run\"><span class=\"swatch c1\"></span>" + name + "</span>"));
}

TEST(ReportLookTest, EachLegendOfRunsNamesEveryRunOnce) {
  const std::string html = RenderReport(TwelveRuns());
  const size_t start = html.find("<p class=\"legend\">", html.find("<h2>Training loss"));
  const std::string legend = html.substr(start, html.find("</p>", start) - start);
  for (const ReportRun& run : TwelveRuns()) {
    const std::string entry = "</span>" + run.spec.name() + "</span>";
    EXPECT_THAT(legend, HasSubstr(entry));
    EXPECT_EQ(legend.find(entry), legend.rfind(entry));
  }
}

TEST(ReportLookTest, AttributesHaveOnlyFiniteNumbers) {
  std::vector<ReportRun> runs = SyntheticRuns();
  for (size_t i = 0; i < 100; ++i) {
    runs[1].metrics[i].set_loss_after_first_segment(i % 3 ? NAN : INFINITY);
    runs[1].metrics[i].set_tokens_per_second(NAN);
  }
  runs[1].evaluation->mutable_domains(0)->set_perplexity_after_first_segment(INFINITY);
  runs[2].metrics.resize(1);
  runs[3].metrics.clear();
  const std::string html = RenderReport(runs);
  EXPECT_FALSE(std::regex_search(html, std::regex("=\"[^\"]{0,40}\\b(nan|inf)\\b")));
  const std::string data = ReportData(runs);
  EXPECT_EQ(data.find("nan"), std::string::npos);
}

TEST(ReportLookTest, TasksShowBothRoutingsWithIntervalsAndChance) {
  std::vector<ReportRun> runs = {SyntheticRuns()[1]};
  v1::TasksResult tasks;
  for (const auto routing : {v1::PROMPT_ROUTING, v1::SEGMENT_ROUTING}) {
    v1::TaskResult* result = tasks.add_results();
    result->set_task("piqa");
    result->set_routing(routing);
    result->set_chance(0.5);
    result->set_num_shots(5);
    result->set_mean_shots(2.25);
    v1::TaskMetric* metric = result->add_metrics();
    metric->set_name("acc");
    metric->set_value(routing == v1::PROMPT_ROUTING ? 0.612 : 0.634);
    metric->mutable_interval()->set_low(0.6);
    metric->mutable_interval()->set_high(0.65);
  }
  runs[0].tasks = tasks;
  const std::string html = RenderReport(runs);
  EXPECT_THAT(html, HasSubstr("61.2<br/><span class=\"interval\">60.0 to 65.0</span>"));
  EXPECT_THAT(html, HasSubstr("63.4 (60.0 to 65.0)"));
  EXPECT_THAT(html, HasSubstr("piqa, chance: 50.0"));
  EXPECT_THAT(html, HasSubstr(">2.2 of 5<"));
}

TEST(ReportDataTest, HasTheCurvesAndComparisonsOfThePage) {
  const nlohmann::json data = nlohmann::json::parse(ReportData(SyntheticRuns()));
  ASSERT_EQ(data["runs"].size(), 4u);
  EXPECT_EQ(data["runs"][1]["loss"]["tokens"].size(), data["runs"][1]["loss"]["values"].size());
  ASSERT_EQ(data["comparisons"].size(), 2u);
  EXPECT_GT(data["comparisons"][0]["loss_difference"].get<double>(), 0.05);
}

// The domain has the name of a number that JSON cannot express.
TEST(ReportDataTest, NonFiniteNumbersOfEvaluationsAndTasksAreNull) {
  std::vector<ReportRun> runs = SyntheticRuns();
  v1::Evaluation& evaluation = *runs[1].evaluation;
  evaluation.mutable_total()->set_loss(std::nan(""));
  evaluation.mutable_domains(0)->set_domain("NaN");
  evaluation.mutable_domains(0)->set_loss(-INFINITY);
  evaluation.mutable_domains(0)->mutable_routing(2)->set_weights(3, INFINITY);
  v1::TasksResult tasks;
  tasks.add_results()->add_metrics()->set_value(INFINITY);
  runs[1].tasks = tasks;
  const nlohmann::json run = nlohmann::json::parse(ReportData(runs))["runs"][1];
  const nlohmann::json& domain = run["evaluation"]["domains"][0];
  EXPECT_EQ(domain["domain"], "NaN");
  EXPECT_TRUE(domain["loss"].is_null());
  EXPECT_TRUE(domain["routing"][2]["weights"][3].is_null());
  EXPECT_TRUE(domain["routing"][2]["weights"][0].is_number());
  EXPECT_TRUE(run["evaluation"]["total"]["loss"].is_null());
  EXPECT_TRUE(run["tasks"]["results"][0]["metrics"][0]["value"].is_null());
}

TEST(ReportDataTest, DoesNotCompareADivergedRun) {
  std::vector<ReportRun> runs = SyntheticRuns();
  for (v1::StepMetrics& step : runs[1].metrics) {
    if (step.step() < 300) continue;
    step.set_loss(std::nan(""));
    step.set_loss_after_first_segment(std::nan(""));
  }
  const nlohmann::json data = nlohmann::json::parse(ReportData(runs));
  ASSERT_EQ(data["comparisons"].size(), 1u);
  EXPECT_EQ(data["comparisons"][0]["run"], runs[3].title);
}

}  // namespace report_look_test
}  // namespace braid
