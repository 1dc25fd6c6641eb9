#include "report/layers_page.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "braid/v1/analysis.pb.h"
#include "report/choice_map.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"
#include "runs/model_path.h"

namespace braid {
namespace {

const char* DescriptionOf(const std::string& probe) {
  if (probe == "length") return "words of the sentence: 5-8, 9-12, 13-16, 17-20, 21-25 or 26-28";
  if (probe == "words") return "which of the words of middle frequency the sentence contains";
  if (probe == "swapped_words") return "whether two neighboring words have been exchanged";
  if (probe == "swapped_clauses") return "whether two coordinate clauses have been exchanged";
  return "";
}

std::string ProbeCurves(const v1::LayerAnalysis& analysis) {
  LineChart chart{.description = "Accuracy of the probes by layer",
                  .x_label = "layer (-1: the embedding)",
                  .y_label = "accuracy",
                  .series = {},
                  .y_min = 0,
                  .y_max = 1,
                  .direct_labels = true};
  for (int i = 0; i < analysis.probes_size(); ++i) {
    PlotSeries& series = chart.series.emplace_back(
        PlotSeries{.name = analysis.probes(i).name(), .color = i, .points = {}});
    for (const v1::LayerProbe& layer : analysis.probes(i).layers()) {
      series.points.push_back({static_cast<double>(layer.layer()), layer.accuracy()});
    }
  }
  return RenderForBothWidths(std::move(chart));
}

std::string ProbeTable(const v1::LayerAnalysis& analysis) {
  HtmlTable table{.header = {"layer"}, .rows = {}};
  HtmlTable::Row majority{{"most frequent class"}, "total"}, sizes{{"training, test sentences"}};
  for (const v1::ProbeResult& probe : analysis.probes()) {
    table.header.push_back(EscapeHtml(probe.name()));
    majority.cells.push_back(FormatFixed(100 * probe.majority(), 1));
    sizes.cells.push_back(absl::StrCat(FormatCount(probe.num_training_sentences()), ", ",
                                       FormatCount(probe.num_test_sentences())));
  }
  for (int i = 0; i < analysis.probes(0).layers_size(); ++i) {
    const int layer = analysis.probes(0).layers(i).layer();
    HtmlTable::Row row{{layer < 0 ? "embedding" : absl::StrCat(layer)}};
    for (const v1::ProbeResult& probe : analysis.probes()) {
      const v1::LayerProbe& at = probe.layers(i);
      row.cells.push_back(WithInterval(100 * at.accuracy(), 100 * at.interval().low(),
                                       100 * at.interval().high(), 1));
    }
    table.rows.push_back(std::move(row));
  }
  table.rows.push_back(std::move(majority));
  table.rows.push_back(std::move(sizes));
  return RenderTable(table);
}

std::string ProbesSection(const v1::LayerAnalysis& analysis) {
  if (analysis.probes().empty()) return "";
  std::string list = "<ul class=\"findings\">\n";
  for (const v1::ProbeResult& probe : analysis.probes()) {
    absl::StrAppend(&list, "<li><b>", EscapeHtml(probe.name()),
                    "</b>: ", DescriptionOf(probe.name()), " (", probe.num_classes(),
                    " classes)</li>\n");
  }
  const std::string note = FallbackNote(analysis.source());
  return Section(
      "What the layers encode",
      absl::StrCat("After ", Counted(analysis.step(), "step"),
                   ". A classifier predicts a property of a sentence from the mean output of "
                   "one layer over its tokens. Accuracy in percent on sentences that it was not "
                   "trained on, with 95 % intervals; all classes of a probe are equally frequent."),
      absl::StrCat(note.empty() ? "" : "<p class=\"note\">", EscapeHtml(note),
                   note.empty() ? "" : "</p>\n", list, "</ul>\n", ProbeCurves(analysis),
                   ProbeTable(analysis)));
}

std::string ChoicesSection(const v1::LayerAnalysis& analysis) {
  std::string maps;
  for (const v1::TaskLayerChoices& task : analysis.choices()) {
    maps += RenderChoiceMap(
        absl::StrCat(EscapeHtml(task.task()), ", ", Counted(task.num_prompts(), "prompt")),
        absl::StrCat("Layers chosen for ", task.task()), task.layers());
  }
  if (maps.empty()) return "";
  return Section("Layers that mixing layers choose",
                 "Share of the choices of each mixing layer (rows) by chosen layer (columns), over "
                 "the prompts of a task. A layer that chooses itself is used alone.",
                 absl::StrCat("<div class=\"maps\">\n", maps, "</div>\n", RenderChoiceScale()));
}

}  // namespace

std::string RenderLayersPage(const v1::LayerAnalysis& analysis, const std::string& title) {
  return RenderHtmlPage({.title = absl::StrCat("Layers of ", EscapeHtml(title)),
                         .body = ProbesSection(analysis) + ChoicesSection(analysis)});
}

}  // namespace braid
