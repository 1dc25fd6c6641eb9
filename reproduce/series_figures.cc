#include "reproduce/series_figures.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

using Colors = std::map<std::string, int>;
// The series of one figure.
using Group = std::vector<const ClaimSeries*>;

// Fraction of training in which losses fall steeply in all arms; the y axis need not cover it.
constexpr double kSettling = 0.1;
// Width of a figure; two are side by side on wide pages and on paper.
constexpr int kWidth = 460;

// Assigns colors in the order of first occurrence; the two main arms have the first two colors.
Colors ColorsOf(std::span<const ClaimSeries> series) {
  Colors colors = {{"dense", 0}, {"moe", 1}};
  for (const ClaimSeries& one : series) {
    colors.emplace(one.name, static_cast<int>(colors.size()));
  }
  return colors;
}

std::vector<Group> GroupsOf(std::span<const ClaimSeries> series) {
  std::vector<Group> groups;
  for (const ClaimSeries& one : series) {
    const auto found = std::ranges::find_if(
        groups, [&](const Group& group) { return group.front()->figure.name == one.figure.name; });
    if (found == groups.end()) {
      groups.push_back({&one});
    } else {
      found->push_back(&one);
    }
  }
  return groups;
}

std::string Lines(const Group& group, const Colors& colors) {
  const SeriesFigure& figure = group.front()->figure;
  LineChart chart{.description = figure.name,
                  .x_label = figure.x_label,
                  .y_label = figure.y_label,
                  .series = {},
                  .y_min = figure.y_min,
                  .y_max = figure.y_max,
                  .settling = kSettling,
                  .width = kWidth,
                  .height = 270};
  for (const ClaimSeries* one : group) {
    PlotSeries line{.name = one->name, .color = colors.at(one->name), .points = {}};
    for (size_t i = 0; i < std::min(one->x.size(), one->values.size()); ++i) {
      line.points.push_back({one->x[i], one->values[i]});
    }
    chart.series.push_back(std::move(line));
  }
  return RenderForBothWidths(std::move(chart));
}

std::string Bars(const Group& group, const Colors& colors) {
  const SeriesFigure& figure = group.front()->figure;
  IntervalChart chart{.marks = IntervalChart::Marks::kBars,
                      .description = figure.name,
                      .x_label = figure.x_label,
                      .labels = group.front()->labels,
                      .series = {},
                      .digits = 3,
                      .width = kWidth};
  for (const ClaimSeries* one : group) {
    chart.series.push_back(
        {.name = one->name, .color = colors.at(one->name), .values = one->values});
  }
  return RenderForBothWidths(std::move(chart));
}

HeatMap MapOf(const Group& group, double high) {
  HeatMap map{.description = group.front()->figure.name,
              .column_label = group.front()->figure.x_label,
              .rows = {},
              .values = {},
              .high = high,
              .column_name = group.front()->figure.x_label};
  for (const ClaimSeries* row : group) {
    map.rows.push_back(row->name);
    map.values.push_back(row->values);
    map.num_columns = std::max(map.num_columns, static_cast<int>(row->values.size()));
  }
  return map;
}

std::string HeatMaps(const std::vector<Group>& groups) {
  std::vector<double> values;
  for (const Group& group : groups) {
    for (const ClaimSeries* row : group) {
      values.insert(values.end(), row->values.begin(), row->values.end());
    }
  }
  // All maps share one scale, so that a layer with equal weights looks uniform.
  const HeatTop top = HeatTopOf(std::move(values));
  if (groups.empty() || !(top.high > 0)) return "";
  std::string out = "<div class=\"maps\">\n";
  for (const Group& group : groups) {
    absl::StrAppend(&out, "<figure><figcaption>", EscapeHtml(group.front()->figure.name),
                    "</figcaption>", RenderHeatMap(MapOf(group, top.high)), "</figure>\n");
  }
  const double uniform = 1.0 / static_cast<double>(groups.front().front()->values.size());
  return absl::StrCat(out, "</div>\n", RenderHeatScale(0, top, uniform, "uniform"));
}

std::string Titled(const std::string& name, const std::string& chart) {
  if (chart.empty()) return "";
  return absl::StrCat("<figure><h3>", EscapeHtml(name), "</h3>\n", chart, "</figure>\n");
}

}  // namespace

std::string RenderSeries(std::span<const ClaimSeries> series) {
  const Colors colors = ColorsOf(series);
  std::vector<Group> maps;
  std::string charts;
  for (const Group& group : GroupsOf(series)) {
    const SeriesFigure& figure = group.front()->figure;
    if (figure.shape == SeriesShape::kHeatRow) {
      maps.push_back(group);
      continue;
    }
    charts += Titled(figure.name, figure.shape == SeriesShape::kCurve ? Lines(group, colors)
                                                                      : Bars(group, colors));
  }
  if (!charts.empty()) charts = absl::StrCat("<div class=\"grid2\">\n", charts, "</div>\n");
  return charts + HeatMaps(maps);
}

}  // namespace braid
