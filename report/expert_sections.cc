#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "braid/v1/analysis.pb.h"
#include "report/html_text.h"
#include "report/layer_chart.h"
#include "report/report_sections.h"
#include "report/routing_sections.h"
#include "report/svg_frame.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

// Layers whose matrices and texts are shown, which bounds the size of the page.
constexpr size_t kExpertShownLayers = 16;

std::string UtilizationChart(const v1::RoutingAnalysis& analysis, const LayerMeasure& measure,
                             double (v1::UtilizationPoint::*value)() const) {
  std::vector<int> layers;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) layers.push_back(layer.layer());
  return RenderLayerChart(measure, "training", layers, [&](int i) {
    std::vector<PlotPoint> points;
    for (const v1::UtilizationPoint& point : analysis.utilization()) {
      if (point.layer() != layers[i]) continue;
      points.push_back({static_cast<double>(point.tokens()), (point.*value)()});
    }
    return points;
  });
}

// Returns the lowest cosine of two different experts in any layer.
double SmallestCosine(const v1::RoutingAnalysis& analysis) {
  double smallest = 1;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    for (const double cosine : layer.expert_similarity()) smallest = std::min(smallest, cosine);
  }
  return smallest;
}

// Returns one cell of the lower triangle, where `row` > `column`.
std::string MatrixCell(int row, int column, double cosine, double share, double left, double cell) {
  const double x = left + cell * column, y = 4 + cell * (row - 1);
  const double side = cell - std::min(1.0, 0.15 * cell);
  std::string out = absl::StrCat(
      "<rect class=\"heat\" x=\"", Pixel(x), "\" y=\"", Pixel(y), "\" width=\"", Pixel(side),
      "\" height=\"", Pixel(side), "\" fill-opacity=\"", FormatFixed(kFullShade * share, 2),
      "\"><title>", row, ", ", column, ": ", FormatFixed(cosine, 3), "</title></rect>");
  if (cell >= 30) {
    absl::StrAppend(
        &out, SvgText(x + cell / 2, y + cell / 2 + 4, "middle", FormatFixed(cosine, 2), "cell"));
  }
  return out;
}

// Returns the cosines below the diagonal: rows are experts from 1, columns from 0.
std::string SimilarityMatrix(const v1::LayerRoutingAnalysis& layer, int num_experts, double low) {
  constexpr double kLeft = 30, kSize = 330;
  const double cell = std::min(40.0, kSize / (num_experts - 1));
  const double side = cell * (num_experts - 1);
  const int stride = std::max(1, static_cast<int>(std::ceil(14 / cell)));
  std::string content;
  for (int row = 1; row < num_experts; ++row) {
    for (int column = 0; column < row; ++column) {
      const double cosine = layer.expert_similarity(row * num_experts + column);
      const double share = low < 1 ? std::clamp((cosine - low) / (1 - low), 0.0, 1.0) : 1;
      if (!std::isfinite(cosine)) continue;
      content += MatrixCell(row, column, cosine, share, kLeft, cell);
    }
    content += "\n";
  }
  for (int i = 0; i < num_experts; i += stride) {
    const double at = cell * (i + 0.5);
    if (i > 0) content += SvgText(kLeft - 6, at - cell + 8, "end", absl::StrCat(i), "place");
    if (i + 1 < num_experts) {
      content += SvgText(kLeft + at, side + 17, "middle", absl::StrCat(i), "place");
    }
  }
  return SvgElement(kLeft + std::max(side, 120.0) + 4, side + 24,
                    absl::StrCat("Cosines of the experts of layer ", layer.layer()), content);
}

std::string PlaceOf(const v1::ExpertText& text) {
  const std::string document = text.document().empty()
                                   ? absl::StrCat("document ", text.document_number())
                                   : EscapeHtml(text.document());
  return absl::StrCat(EscapeHtml(text.domain()), "<br/><span class=\"path\">", document,
                      "<br/>window ", text.window(), "<br/>segment ", text.segment(), "</span>");
}

// Returns the text without leading and trailing line breaks.
std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

std::string TextTable(const v1::LayerRoutingAnalysis& layer) {
  HtmlTable table{.header = {"expert", "weight", "where", "segment that the router read"},
                  .rows = {},
                  .numeric = false};
  for (const v1::ExpertTexts& expert : layer.texts()) {
    std::string name = absl::StrCat(expert.expert());
    for (const v1::ExpertText& text : expert.texts()) {
      table.rows.push_back(
          {{name, FormatFixed(text.weight(), 3), PlaceOf(text),
            absl::StrCat("<div class=\"text\">", EscapeHtml(Trimmed(text.text())), "</div>")}});
      name.clear();
    }
  }
  return table.rows.empty() ? "" : RenderTable(table);
}

// Returns a note for sections that show only some of the layers.
std::string ShownNote(const v1::RoutingAnalysis& analysis) {
  if (static_cast<size_t>(analysis.layers_size()) <= kExpertShownLayers) return "";
  return absl::StrCat(" Of ", analysis.layers_size(), " layers, ", kExpertShownLayers,
                      " are shown; select others with --layers.");
}

}  // namespace

std::string UtilizationCurves(const v1::RoutingAnalysis& analysis) {
  if (analysis.utilization().empty()) return "";
  const double experts = analysis.num_experts();
  const std::string of_experts = absl::StrCat(" of ", experts);
  std::string charts = "<div class=\"grid2\">";
  const auto add = [&](const LayerMeasure& measure, double (v1::UtilizationPoint::*value)() const) {
    absl::StrAppend(&charts, "<div>", UtilizationChart(analysis, measure, value), "</div>");
  };
  add({"Active experts", of_experts, experts}, &v1::UtilizationPoint::active_experts);
  add({"Effective experts", of_experts, experts}, &v1::UtilizationPoint::effective_experts);
  add({"Entropy of decisions", ", nats", std::log(std::max(experts, 1.0))},
      &v1::UtilizationPoint::entropy);
  return Section(
      "Expert utilization over training",
      "Measured on training batches. An expert is active if a routing decision of the "
      "last ten steps chose it or, where none are chosen, gave it a weight above 2/E. "
      "Effective experts: the exponential of "
      "the entropy of the mean weights of a batch; a layer with one effective expert has "
      "collapsed.",
      charts + "</div>\n");
}

std::string SimilarityMatrices(const v1::RoutingAnalysis& analysis) {
  const int experts = analysis.num_experts();
  if (experts < 2) return "";
  const double low = SmallestCosine(analysis);
  std::string maps;
  for (const size_t place : EvenlySpaced(analysis.layers_size(), kExpertShownLayers)) {
    const v1::LayerRoutingAnalysis& layer = analysis.layers(static_cast<int>(place));
    if (layer.expert_similarity_size() != experts * experts) continue;
    absl::StrAppend(&maps, "<figure><figcaption>layer ", layer.layer(), "</figcaption>",
                    SimilarityMatrix(layer, experts, low), "</figure>\n");
  }
  if (maps.empty()) return "";
  return Section(
      "Similarity of experts",
      absl::StrCat("Cosine similarity of the parameters of each pair of experts, from ",
                   FormatFixed(low, 3),
                   " (lightest shade, the lowest of all pairs) to 1 (darkest shade). Upcycling "
                   "starts from copies, whose similarity is 1.",
                   ShownNote(analysis)),
      "<div class=\"maps\">\n" + maps + "</div>\n" +
          RenderHeatScale(low, {.high = 1}, std::nan(""), ""));
}

std::string TopActivatingTexts(const v1::RoutingAnalysis& analysis) {
  std::string body;
  for (const size_t place : EvenlySpaced(analysis.layers_size(), kExpertShownLayers)) {
    const v1::LayerRoutingAnalysis& layer = analysis.layers(static_cast<int>(place));
    const std::string table = TextTable(layer);
    if (table.empty()) continue;
    absl::StrAppend(&body, "<details", body.empty() ? " open=\"open\"" : "", "><summary>layer ",
                    layer.layer(), "</summary>\n<div class=\"texts\">", table,
                    "</div></details>\n");
  }
  return Section(
      "Top-activating segments",
      "The highest routing weights of each expert, with the segment that the router read. "
      "A segment is routed on the segment before it, and that one is shown; at most one "
      "per window. Documents are numbered within the held-out split of their domain." +
          ShownNote(analysis),
      body);
}

}  // namespace braid
