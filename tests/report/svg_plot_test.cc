#include "report/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/report/page_checks.h"

namespace braid {
namespace svg_plot_test {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

LineChart ChartOf(std::vector<PlotPoint> points) {
  return {.description = "a <chart>",
          .x_label = "tokens",
          .y_label = "loss",
          .series = {{"one & only", 0, std::move(points)}}};
}

TEST(RoundTicksTest, AreRoundAndInside) {
  EXPECT_THAT(RoundTicks(0, 10, 5), Pointwise(DoubleNear(1e-9), {0., 2., 4., 6., 8., 10.}));
  EXPECT_THAT(RoundTicks(-0.12, 0.31, 5), Pointwise(DoubleNear(1e-9), {-0.1, 0., 0.1, 0.2, 0.3}));
  EXPECT_THAT(RoundTicks(3, 3, 5), testing::SizeIs(1));
}

TEST(RoundTicksTest, CoverAnyRangeWithoutTooMany) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-3, 6);
  for (int trial = 0; trial < 200; ++trial) {
    const double low = std::pow(10, uniform(random)) - 100;
    const double high = low + std::pow(10, uniform(random));
    const std::vector<double> ticks = RoundTicks(low, high, 5);
    ASSERT_LE(ticks.size(), 6u) << low << " to " << high;
    ASSERT_GE(ticks.size(), 2u) << low << " to " << high;
    EXPECT_GE(ticks.front(), low - 1e-6 * (high - low));
    EXPECT_LE(ticks.back(), high + 1e-6 * (high - low));
  }
}

// Smoothing a constant gives such ranges.
TEST(RoundTicksTest, ARangeOfRoundingErrorsIsEmpty) {
  for (const double low : {0.7, -0.7, 1e-300, 3e15, 1e300}) {
    double high = low;
    for (int ulps = 1; ulps <= 100; ++ulps) {
      high = std::nextafter(high, INFINITY);
      EXPECT_THAT(RoundTicks(low, high, 5), testing::SizeIs(1)) << low << " " << ulps;
      const PlotScale scale = ScaleOf(low, high, 0, 100);
      EXPECT_LE(RoundTicks(scale.low, scale.high, 5).size(), 6u) << low << " " << ulps;
    }
  }
}

TEST(XAxisTest, ASingleTickHasItsDigits) {
  EXPECT_THAT(XAxis(PlotScale{2.1, 2.9, 0, 60}, 0, 10, ""), HasSubstr(">2.5<"));
}

TEST(LineChartTest, EscapesNamesAndShowsValuesOnHover) {
  const std::string svg = RenderLineChart(ChartOf({{0, 2.5}, {1000, 2.25}}));
  EXPECT_THAT(svg, HasSubstr("a &lt;chart&gt;"));
  EXPECT_THAT(svg, HasSubstr(">1k tokens</tspan>"));
  EXPECT_THAT(svg, HasSubstr(">one &amp; only 2.250</tspan>"));
}

TEST(LineChartTest, HoverBoxesAreHiddenWithTheirRun) {
  LineChart chart = ChartOf({{0, 2.5}, {1000, 2.25}});
  chart.series[0].css_class = "run-0";
  const std::string svg = RenderLineChart(chart);
  EXPECT_THAT(svg, HasSubstr("<tspan class=\"run-0\""));
  EXPECT_THAT(svg, HasSubstr("<circle class=\"c0 run-0\""));
}

TEST(LineChartTest, BreaksTheLineWhereAValueIsMissing) {
  const std::string svg = RenderLineChart(ChartOf({{0, 1}, {1, std::nan("")}, {2, 3}, {3, 2}}));
  const size_t path = svg.find(" d=\"");
  const std::string d = svg.substr(path + 4, svg.find('"', path + 4) - path - 4);
  EXPECT_EQ(std::count(d.begin(), d.end(), 'M'), 2) << d;
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LineChartTest, AcceptsDataWithoutARange) {
  EXPECT_NE(RenderLineChart(ChartOf({{0, 0.7}, {1, std::nextafter(0.7, 1)}})), "");
  EXPECT_EQ(RenderLineChart(ChartOf({})), "");
  EXPECT_EQ(RenderLineChart(ChartOf({{0, std::nan("")}})), "");
  for (const std::vector<PlotPoint>& points :
       {std::vector<PlotPoint>{{0, 0}}, {{5, 7}}, {{1, 2}, {2, 2}}, {{1, 1e300}, {2, -1e300}}}) {
    const std::string svg = RenderLineChart(ChartOf(points));
    EXPECT_THAT(svg, HasSubstr("<svg"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(IntervalChartTest, LongestBarFitsAndMissingValuesAreLeftOut) {
  IntervalChart chart{.marks = IntervalChart::Marks::kBars,
                      .description = "bars",
                      .x_label = "perplexity",
                      .labels = {"code", "law"},
                      .series = {{"a", 0, {10, std::nan("")}}, {"b", 1, {40}}}};
  const std::string svg = RenderForBothWidths(chart);
  EXPECT_THAT(svg, HasSubstr("code, a: 10.0"));
  EXPECT_THAT(svg, HasSubstr("code, b: 40.0"));
  EXPECT_THAT(svg, Not(HasSubstr("law, ")));
  chart.labels.clear();
  EXPECT_EQ(RenderForBothWidths(chart), "");
}

TEST(IntervalChartTest, WhiskersReachFromLowToHighAndAreLeftOutWithoutBoth) {
  IntervalChart chart{.marks = IntervalChart::Marks::kBars,
                      .description = "bars",
                      .x_label = "perplexity",
                      .labels = {"code", "law"},
                      .series = {{"a", 0, {10, 20}, {8, std::nan("")}, {13, 22}}}};
  const std::string svg = RenderForBothWidths(chart);
  EXPECT_THAT(svg, HasSubstr("code, a: 10.0 (8.0 to 13.0)"));
  EXPECT_THAT(svg, HasSubstr("law, a: 20.0<"));
  const std::vector<std::string> plots = PlotsOf(svg);
  ASSERT_EQ(plots.size(), 2u);
  EXPECT_THAT(plots[0], HasSubstr("viewBox=\"0 0 640 "));
  EXPECT_THAT(plots[1], HasSubstr("viewBox=\"0 0 370 "));
  for (const std::string& plot : plots) {
    EXPECT_EQ(plot.find("whisker"), plot.rfind("whisker")) << "one of two bars has an interval";
  }
}

TEST(IntervalChartTest, ReferencesAndDotsWithoutValueAreLeftOut) {
  const IntervalChart chart{.description = "dots",
                            .x_label = "accuracy, %",
                            .labels = {"piqa", "nq"},
                            .series = {{"a", 0, {55, 3}}, {"b", 1, {std::nan("")}}},
                            .references = {50, std::nan("")},
                            .reference_name = "chance"};
  const std::string svg = RenderForBothWidths(chart);
  EXPECT_THAT(svg, HasSubstr("piqa, chance: 50.0"));
  EXPECT_THAT(svg, Not(HasSubstr("nq, chance")));
  EXPECT_THAT(svg, HasSubstr("nq, a: 3.0"));
  EXPECT_THAT(svg, Not(HasSubstr(", b: ")));
  EXPECT_EQ(RenderForBothWidths(IntervalChart{}), "");
}

TEST(StackedBarsTest, SharesAreOfTheWholeBar) {
  const std::string svg = RenderStackedBars({.description = "times",
                                             .x_label = "ms",
                                             .unit = "ms",
                                             .labels = {"run"},
                                             .parts = {"FFN", "head", "none"},
                                             .values = {{30, 10, 0}}});
  EXPECT_THAT(svg, HasSubstr("run, FFN: 30.0 ms (75.0 %)"));
  EXPECT_THAT(svg, HasSubstr("run, head: 10.0 ms (25.0 %)"));
  EXPECT_THAT(svg, Not(HasSubstr("none")));
  EXPECT_EQ(RenderStackedBars({}), "");
}

TEST(LineChartTest, MarksOutsideTheRangeAreLeftOut) {
  LineChart chart = ChartOf({{0, 2.5}, {1000, 2.25}});
  chart.marks = {{500, "restart <1>"}, {5000, "later"}, {std::nan(""), "never"}};
  const std::string svg = RenderLineChart(chart);
  EXPECT_THAT(svg, HasSubstr("restart &lt;1&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("later")));
  EXPECT_THAT(svg, Not(HasSubstr("never")));
}

TEST(HeatMapTest, ShadesFromLowToHigh) {
  const HeatMap map{.description = "map",
                    .column_label = "expert",
                    .rows = {"code", "law"},
                    .num_columns = 2,
                    .values = {{0, 0.5}, {0.25}},
                    .high = 0.5};
  const std::string svg = RenderHeatMap(map);
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.740\"><title>code, expert 1: 0.500"));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.370\"><title>law, expert 0: 0.250"));
  EXPECT_THAT(svg, Not(HasSubstr("law, expert 1")));
}

TEST(HeatMapTest, CellsOfManyColumnsHaveAWidth) {
  const HeatMap map{.description = "map",
                    .column_label = "expert",
                    .rows = {"a domain with a long name"},
                    .num_columns = 4096,
                    .values = {std::vector<double>(4096, 0.5)},
                    .high = 0.5};
  EXPECT_THAT(RenderHeatMap(map), Not(HasSubstr("width=\"-")));
}

TEST(AxisTest, TicksOfAnAxisHaveTheSameUnitAndDigits) {
  const std::string axis = XAxis(ScaleOf(1000, 2000, 0, 360), 0, 100, "tokens");
  for (const char* tick : {">1.0k<", ">1.2k<", ">1.8k<", ">2.0k<"}) {
    EXPECT_NE(axis.find(tick), std::string::npos) << axis;
  }
  EXPECT_NE(XAxis(ScaleOf(0, 1000000, 0, 300), 0, 100, "").find(">0.2M<"), std::string::npos);
  EXPECT_NE(XAxis(ScaleOf(0, 400000, 0, 300), 0, 100, "").find(">0<"), std::string::npos);
}

TEST(HeatTopTest, AnOutlierDoesNotStretchTheScale) {
  std::vector<double> values(200, 0.125);
  values[7] = 0.2;
  EXPECT_DOUBLE_EQ(HeatTopOf(values).high, 0.2);
  values[9] = 0.95;
  EXPECT_DOUBLE_EQ(HeatTopOf(values).high, 0.125);
  EXPECT_TRUE(HeatTopOf(values).capped);
  values[9] = NAN;
  EXPECT_FALSE(HeatTopOf(values).capped);
  EXPECT_EQ(HeatTopOf({}).high, 0);
}

}  // namespace svg_plot_test
}  // namespace braid
