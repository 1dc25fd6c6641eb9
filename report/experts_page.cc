#include "report/experts_page.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "braid/v1/analysis.pb.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"
#include "runs/model_path.h"

namespace braid {
namespace {

std::string SharesSection(const v1::ExpertActivity& activity) {
  IntervalChart chart{.marks = IntervalChart::Marks::kBars,
                      .description = "Shares of the activations in the chosen experts by layer",
                      .x_label = "share",
                      .labels = {},
                      .series = {{"activation mass", 0, {}},
                                 {"mass in random groups", 1, {}},
                                 {"active units", 2, {}},
                                 {"active units in random groups", 3, {}}},
                      .digits = 3};
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    chart.labels.push_back(absl::StrCat("layer ", layer.layer()));
    chart.series[0].values.push_back(layer.mass_share());
    chart.series[1].values.push_back(layer.random_mass_share());
    chart.series[2].values.push_back(layer.active_share());
    chart.series[3].values.push_back(layer.random_active_share());
  }
  const std::string note = FallbackNote(activity.source());
  return Section(
      "Activations in the chosen experts",
      absl::StrCat(
          "After ", Counted(activity.step(), "step"), ", on ",
          FormatCount(static_cast<double>(activity.num_tokens())), " tokens that choose ",
          activity.varying_experts() ? "a varying number" : absl::StrCat(activity.active_experts()),
          " of ", activity.num_experts(),
          " experts. Mass: the sum of |hidden activation|. A unit is active if its gate is "
          "above 0. Random groups of as many units, chosen by the same rule, show what "
          "the choice alone achieves."),
      absl::StrCat(note.empty() ? "" : "<p class=\"note\">", EscapeHtml(note),
                   note.empty() ? "" : "</p>\n", RenderForBothWidths(std::move(chart))));
}

std::string UseSection(const v1::ExpertActivity& activity) {
  std::vector<double> shares;
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    for (const v1::DomainRouting& domain : layer.domains()) {
      shares.insert(shares.end(), domain.weights().begin(), domain.weights().end());
    }
  }
  const HeatTop top = HeatTopOf(std::move(shares));
  if (!(top.high > 0)) return "";
  std::string maps;
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    HeatMap map{.description = absl::StrCat("Experts of layer ", layer.layer(), " by domain"),
                .column_label = "expert",
                .rows = {},
                .num_columns = activity.num_experts(),
                .values = {},
                .low = 0,
                .high = top.high};
    for (const v1::DomainRouting& domain : layer.domains()) {
      map.rows.push_back(domain.domain());
      map.values.emplace_back(domain.weights().begin(), domain.weights().end());
    }
    absl::StrAppend(&maps, "<figure><figcaption>layer ", layer.layer(), "</figcaption>",
                    RenderHeatMap(map), "</figure>\n");
  }
  return Section(
      "Experts by domain and task",
      "Share of the choices of the tokens of a domain, or of the prompts of a task, that "
      "fall on each expert. All layers share one scale; rows that differ show experts "
      "that specialize.",
      absl::StrCat("<div class=\"maps\">\n", maps, "</div>\n",
                   RenderHeatScale(0, top, 1.0 / std::max(1, activity.num_experts()), "even")));
}

std::string DriftSection(const v1::ExpertActivity& activity) {
  if (activity.drift().empty()) return "";
  std::vector<std::pair<int64_t, int64_t>> steps;
  HtmlTable table{.header = {"layer"}, .rows = {}};
  for (const v1::ChoiceDrift& drift : activity.drift()) {
    const std::pair<int64_t, int64_t> pair = {drift.from_step(), drift.to_step()};
    if (std::ranges::find(steps, pair) != steps.end()) continue;
    steps.push_back(pair);
    table.header.push_back(absl::StrCat(pair.first, " to ", pair.second));
  }
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    HtmlTable::Row row{{absl::StrCat(layer.layer())}};
    for (const auto& [from, to] : steps) {
      double share = std::nan("");
      for (const v1::ChoiceDrift& drift : activity.drift()) {
        const bool same = drift.layer() == layer.layer() && drift.from_step() == from;
        if (same && drift.to_step() == to) share = drift.changed_share();
      }
      row.cells.push_back(FormatPercent(share));
    }
    table.rows.push_back(std::move(row));
  }
  return Section("Change of choices in training",
                 "Share of the tokens whose set of chosen experts differs between two checkpoints "
                 "of the run, identified by their steps; 0 is the model that it started from.",
                 RenderTable(table));
}

}  // namespace

std::string RenderExpertsPage(const v1::ExpertActivity& activity, const std::string& title) {
  return RenderHtmlPage(
      {.title = absl::StrCat("Experts of ", EscapeHtml(title)),
       .body = SharesSection(activity) + UseSection(activity) + DriftSection(activity)});
}

}  // namespace braid
