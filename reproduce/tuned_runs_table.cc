#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "client/terminal/tables.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "reproduce/page_sections.h"

namespace braid {
namespace {

void AddScoreRows(const ReproducedRun& run, HtmlTable* table) {
  for (const TaskSummary& score : run.tasks) {
    const std::string scored =
        score.scoring.empty() ? score.task : absl::StrCat(score.task, ", ", score.scoring);
    table->rows.push_back(
        {{EscapeHtml(run.name), EscapeHtml(run.id), FormatFixed(run.training_loss, 3),
          EscapeHtml(scored), WithThousands(score.num_examples), FormatFixed(score.answer_loss, 3),
          FormatFixed(score.figure, 3)}});
  }
}

}  // namespace

std::string TunedRunsTable(const Reproduction& reproduction) {
  HtmlTable table{.header = {"run", "id", "training loss", "asked", "examples", "nats per answer",
                             "right answers"},
                  .rows = {}};
  for (const ReproducedRun& run : reproduction.runs) AddScoreRows(run, &table);
  if (table.rows.empty()) return "";
  return absl::StrCat(
      "<h3>Fine-tuned models</h3>\n<p class=\"note\">The training loss is in nats per target, the "
      "mean over the last tenth of the steps. Right answers is the main figure of the "
      "task.</p>\n",
      RenderTable(table));
}

}  // namespace braid
