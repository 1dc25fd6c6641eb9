#include "report/routing_sections.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "braid/v1/analysis.pb.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"
#include "runs/model_path.h"

namespace braid {
namespace {

std::string LayerName(const v1::LayerRoutingAnalysis& layer) {
  return absl::StrCat("layer ", layer.layer());
}

int64_t NumDecisions(const v1::LayerRoutingAnalysis& layer) {
  int64_t decisions = 0;
  for (const v1::DomainRouting& domain : layer.domains()) decisions += domain.num_decisions();
  return decisions;
}

// Returns the mean over all pairs of different experts.
double MeanCosine(const v1::LayerRoutingAnalysis& layer, int num_experts) {
  double sum = 0;
  for (const double cosine : layer.expert_similarity()) sum += cosine;
  const double pairs = static_cast<double>(num_experts) * (num_experts - 1);
  return pairs > 0 ? (sum - num_experts) / pairs : std::nan("");
}

// All layers share one scale, so that a layer with equal weights looks uniform.
HeatTop TopOf(const v1::RoutingAnalysis& analysis) {
  std::vector<double> weights;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    for (const v1::DomainRouting& domain : layer.domains()) {
      weights.insert(weights.end(), domain.weights().begin(), domain.weights().end());
    }
  }
  return HeatTopOf(std::move(weights));
}

// Returns the upper end of a scale for its explanation.
std::string TopText(const HeatTop& top) {
  return absl::StrCat(
      FormatFixed(top.high, 2),
      top.capped ? " and above (darkest; outliers do not extend the scale)" : " (darkest)");
}

HeatMap MapOf(const v1::LayerRoutingAnalysis& layer, int num_experts, double high) {
  HeatMap map{
      .description = absl::StrCat("Mean routing weights of ", LayerName(layer), " by domain"),
      .column_label = "expert",
      .rows = {},
      .num_columns = num_experts,
      .values = {},
      .low = 0,
      .high = high};
  for (const v1::DomainRouting& domain : layer.domains()) {
    map.rows.push_back(domain.domain());
    map.values.emplace_back(domain.weights().begin(), domain.weights().end());
  }
  return map;
}

// Returns the domains in the order of their first occurrence in the layers.
std::vector<std::string> DomainsOf(const v1::RoutingAnalysis& analysis) {
  std::vector<std::string> names;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    for (const v1::DomainRouting& domain : layer.domains()) {
      if (std::ranges::find(names, domain.domain()) == names.end()) {
        names.push_back(domain.domain());
      }
    }
  }
  return names;
}

// Returns the lowest and the highest entropy of the table.
std::pair<double, double> EntropyRange(const v1::RoutingAnalysis& analysis) {
  double low = std::log(std::max(2, analysis.num_experts())), high = 0;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    for (const v1::DomainRouting& domain : layer.domains()) {
      low = std::min(low, domain.entropy());
      high = std::max(high, domain.entropy());
    }
  }
  return {low, high};
}

// Returns a number whose background is shaded by its position in the range.
std::string Shaded(double value, std::pair<double, double> range) {
  const double share =
      range.second > range.first ? (value - range.first) / (range.second - range.first) : 0;
  return absl::StrCat("<span class=\"shade\" style=\"background:color-mix(in srgb,var(--heat) ",
                      FormatFixed(55 * std::clamp(share, 0.0, 1.0), 0), "%,transparent)\">",
                      FormatFixed(value, 3), "</span>");
}

std::string EntropyCell(const v1::LayerRoutingAnalysis& layer, const std::string& domain,
                        std::pair<double, double> range) {
  for (const v1::DomainRouting& one : layer.domains()) {
    if (one.domain() == domain) return Shaded(one.entropy(), range);
  }
  return FormatFixed(std::nan(""), 3);
}

}  // namespace

const char kRoutingStyle[] = R"css(
.shade { display: inline-block; padding: 1px 7px; border-radius: 3px; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; font: 12.5px/1.45 ui-monospace, monospace; }
.texts td, .texts th { text-align: left !important; }
.texts td:last-child { min-width: 20em; width: 100%; white-space: normal; }
svg.matrix { max-height: 420px; }
svg text.place { font-size: 10px; }
)css";

std::string RoutingOverview(const v1::RoutingAnalysis& analysis) {
  HtmlTable table{.header = {"layer", "divergence", "entropy", "effective experts",
                             "most active expert", "least active", "mean cosine", "decisions"},
                  .rows = {}};
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    const auto& shares = layer.active_share();
    const auto most = std::ranges::max_element(shares), least = std::ranges::min_element(shares);
    const auto expert = [&](auto place) {
      if (place == shares.end()) return FormatFixed(std::nan(""), 0);
      return absl::StrCat(place - shares.begin(), " (", FormatPercent(*place), ")");
    };
    table.rows.push_back(
        {{absl::StrCat(layer.layer()), FormatFixed(layer.divergence(), 3),
          FormatFixed(layer.entropy(), 3), FormatFixed(layer.effective_experts(), 2), expert(most),
          expert(least), FormatFixed(MeanCosine(layer, analysis.num_experts()), 3),
          FormatCount(static_cast<double>(NumDecisions(layer)))}});
  }
  if (table.rows.empty()) return "";
  const std::string note = FallbackNote(analysis.source());
  return Section(
      "Layers",
      absl::StrCat(
          "After ", Counted(analysis.step(), "step"), ", ", analysis.num_experts(),
          " experts. Divergence: how much the routing differs between domains, in nats; 0 "
          "if it is equal. Entropy: of a routing decision, at most ln ",
          analysis.num_experts(), " = ",
          FormatFixed(std::log(std::max(1, analysis.num_experts())), 3),
          " nats. Effective experts: the exponential of the entropy of the mean weights. An "
          "expert is active in a decision that chooses it or, where none are chosen, gives it "
          "a weight above 2/E. Mean cosine: of the parameters of two experts."),
      absl::StrCat(note.empty() ? "" : "<p class=\"note\">", EscapeHtml(note),
                   note.empty() ? "" : "</p>\n", RenderTable(table)));
}

std::string DomainHeatMaps(const v1::RoutingAnalysis& analysis) {
  const HeatTop top = TopOf(analysis);
  if (!(top.high > 0)) return "";
  std::string maps = "<div class=\"maps\">\n";
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    absl::StrAppend(&maps, "<figure><figcaption>", LayerName(layer), ", divergence ",
                    FormatFixed(layer.divergence(), 3), "</figcaption>",
                    RenderHeatMap(MapOf(layer, analysis.num_experts(), top.high)), "</figure>\n");
  }
  return Section("Routing by domain",
                 absl::StrCat("Mean weight of each expert over the held-out decisions of a domain. "
                              "All layers share the scale from 0 (transparent) to ",
                              TopText(top),
                              ". Rows that differ show experts that specialize; equal rows show "
                              "a layer whose routing does not depend on the domain."),
                 maps + "</div>\n" +
                     RenderHeatScale(0, top, 1.0 / std::max(1, analysis.num_experts()), "uniform"));
}

std::string DivergenceByLayer(const v1::RoutingAnalysis& analysis) {
  if (analysis.layers_size() < 2) return "";
  IntervalChart chart{.marks = IntervalChart::Marks::kBars,
                      .description = "Divergence of the domains in each layer",
                      .x_label = "Jensen-Shannon divergence, nats",
                      .labels = {},
                      .series = {{"divergence", 0, {}}},
                      .digits = 3};
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    chart.labels.push_back(LayerName(layer));
    chart.series[0].values.push_back(layer.divergence());
  }
  return Section("Divergence by layer",
                 "The Jensen-Shannon divergence between the mean weights of the domains, which all "
                 "count equally.",
                 RenderForBothWidths(std::move(chart)));
}

std::string EntropyByDomain(const v1::RoutingAnalysis& analysis) {
  const std::vector<std::string> domains = DomainsOf(analysis);
  if (domains.empty()) return "";
  const std::pair<double, double> range = EntropyRange(analysis);
  HtmlTable table{.header = {"domain"}, .rows = {}};
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    table.header.push_back(LayerName(layer));
  }
  HtmlTable::Row all{{"all"}, "total"};
  for (const std::string& domain : domains) {
    HtmlTable::Row row{{EscapeHtml(domain)}};
    for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
      row.cells.push_back(EntropyCell(layer, domain, range));
    }
    table.rows.push_back(std::move(row));
  }
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    all.cells.push_back(Shaded(layer.entropy(), range));
  }
  table.rows.push_back(std::move(all));
  return Section("Entropy of decisions",
                 absl::StrCat("Mean entropy in nats: 0 if one expert has all the weight, ",
                              FormatFixed(std::log(std::max(1, analysis.num_experts())), 3),
                              " if all have equal weights. Low entropy together with many "
                              "effective experts means that decisions are sharp and differ."),
                 RenderTable(table));
}

std::string ActiveShares(const v1::RoutingAnalysis& analysis) {
  HeatMap map{.description = "Share of decisions in which each expert is active, by layer",
              .column_label = "expert",
              .rows = {},
              .num_columns = analysis.num_experts(),
              .values = {},
              .low = 0,
              .high = 0};
  std::vector<double> shares;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    map.rows.push_back(LayerName(layer));
    map.values.emplace_back(layer.active_share().begin(), layer.active_share().end());
    shares.insert(shares.end(), layer.active_share().begin(), layer.active_share().end());
  }
  const HeatTop top = HeatTopOf(std::move(shares));
  map.high = top.high;
  if (!(map.high > 0)) return "";
  return Section("Active experts",
                 absl::StrCat("Share of decisions that choose an expert or, where none are "
                              "chosen, give it a weight above 2/E = ",
                              FormatFixed(2.0 / std::max(1, analysis.num_experts()), 3),
                              "; the scale goes from 0 (transparent) to ", TopText(top),
                              ". A column without shade is an expert that is never active."),
                 RenderHeatMap(map) + RenderHeatScale(0, top, std::nan(""), ""));
}

}  // namespace braid
