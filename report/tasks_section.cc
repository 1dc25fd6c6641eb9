#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

// With more runs, both routings of a run share a lane.
constexpr size_t kMaxOwnLanes = 4;

// A run with one of its routings: a column of the table and a series of the plot.
struct Contender {
  size_t run = 0;
  v1::InferenceRouting routing = v1::PROMPT_ROUTING;
};

const char* RoutingName(v1::InferenceRouting routing) {
  return routing == v1::SEGMENT_ROUTING ? "segment" : "prompt";
}

std::vector<Contender> ContendersOf(std::span<const ReportRun> runs) {
  std::vector<Contender> contenders;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].tasks) continue;
    for (const v1::InferenceRouting routing : {v1::PROMPT_ROUTING, v1::SEGMENT_ROUTING}) {
      const auto& results = runs[i].tasks->results();
      if (std::any_of(results.begin(), results.end(),
                      [&](const v1::TaskResult& result) { return result.routing() == routing; })) {
        contenders.push_back({i, routing});
      }
    }
  }
  return contenders;
}

// Returns the tasks in the order of their first occurrence in the runs.
std::vector<std::string> TaskNames(std::span<const ReportRun> runs) {
  std::vector<std::string> names;
  for (const ReportRun& run : runs) {
    if (!run.tasks) continue;
    for (const v1::TaskResult& result : run.tasks->results()) {
      if (std::find(names.begin(), names.end(), result.task()) == names.end()) {
        names.push_back(result.task());
      }
    }
  }
  return names;
}

const v1::TaskResult* Find(const ReportRun& run, const std::string& task,
                           v1::InferenceRouting routing) {
  for (const v1::TaskResult& result : run.tasks->results()) {
    if (result.task() == task && result.routing() == routing && result.metrics_size() > 0) {
      return &result;
    }
  }
  return nullptr;
}

// Returns the result of any run, for values that do not depend on the model.
const v1::TaskResult* FindAny(std::span<const ReportRun> runs,
                              const std::vector<Contender>& contenders, const std::string& task) {
  for (const Contender& contender : contenders) {
    if (const auto* found = Find(runs[contender.run], task, contender.routing)) return found;
  }
  return nullptr;
}

double ChanceOf(const v1::TaskResult* result) {
  return result && result->chance() > 0 ? 100 * result->chance() : kNan;
}

std::string Chart(std::span<const ReportRun> runs, const std::vector<Contender>& contenders,
                  const std::vector<std::string>& tasks) {
  IntervalChart chart{.description = "Score of each run on each task, with 95 % intervals",
                      .x_label = "main metric, %",
                      .labels = tasks,
                      .series = {},
                      .references = {},
                      .reference_name = "chance",
                      .width = 760};
  for (const std::string& task : tasks) {
    chart.references.push_back(ChanceOf(FindAny(runs, contenders, task)));
  }
  const bool shared = runs.size() > kMaxOwnLanes;
  std::set<size_t> named;
  for (const Contender& contender : contenders) {
    IntervalChart::Series series{.name = RunName(runs, contender.run),
                                 .color = static_cast<int>(contender.run),
                                 .values = {},
                                 .css_class = RunClass(contender.run),
                                 .hollow = contender.routing == v1::SEGMENT_ROUTING,
                                 .lane = shared ? static_cast<int>(contender.run) : -1,
                                 .in_legend = named.insert(contender.run).second};
    for (const std::string& task : tasks) {
      const v1::TaskResult* found = Find(runs[contender.run], task, contender.routing);
      const bool interval = found && found->metrics(0).has_interval();
      series.values.push_back(found ? 100 * found->metrics(0).value() : kNan);
      series.lows.push_back(interval ? 100 * found->metrics(0).interval().low() : kNan);
      series.highs.push_back(interval ? 100 * found->metrics(0).interval().high() : kNan);
    }
    chart.series.push_back(std::move(series));
  }
  return RenderForBothWidths(std::move(chart));
}

std::string CellOf(const v1::TaskResult* result) {
  if (!result) return FormatFixed(kNan, 1);
  const v1::TaskMetric& metric = result->metrics(0);
  return WithInterval(100 * metric.value(),
                      metric.has_interval() ? 100 * metric.interval().low() : kNan,
                      metric.has_interval() ? 100 * metric.interval().high() : kNan, 1);
}

// Returns the number of demonstrations, and their mean number where some did not fit or do not
// exist.
std::string ShotsOf(const v1::TaskResult& result) {
  const double shown = result.mean_shots();
  if (result.num_shots() == 0 || shown > result.num_shots() - 0.05) {
    return absl::StrCat(result.num_shots());
  }
  return absl::StrCat(FormatFixed(shown, 1), " of ", result.num_shots());
}

// Appends a text unless the list has it.
void AppendNew(const std::string& text, std::vector<std::string>* list) {
  if (std::find(list->begin(), list->end(), text) == list->end()) list->push_back(text);
}

HtmlTable::Row RowOf(std::span<const ReportRun> runs, const std::vector<Contender>& contenders,
                     const std::string& task) {
  const v1::TaskResult* any = FindAny(runs, contenders, task);
  std::vector<std::string> shots, examples, cells;
  for (const Contender& contender : contenders) {
    const v1::TaskResult* found = Find(runs[contender.run], task, contender.routing);
    cells.push_back(CellOf(found));
    if (!found) continue;
    AppendNew(ShotsOf(*found), &shots);
    AppendNew(absl::StrCat(found->num_examples()), &examples);
  }
  HtmlTable::Row row{{EscapeHtml(task), any ? EscapeHtml(any->metrics(0).name()) : "",
                      absl::StrJoin(shots, ", "), absl::StrJoin(examples, ", "),
                      FormatFixed(ChanceOf(any), 1)}};
  row.cells.insert(row.cells.end(), cells.begin(), cells.end());
  return row;
}

// Returns the tasks, or the examples of tasks, that were left out, with the reasons.
std::string Skipped(std::span<const ReportRun> runs) {
  std::string items;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].tasks) continue;
    for (const auto& [task, cause] : runs[i].tasks->skipped()) {
      absl::StrAppend(&items, "<li>", EscapeHtml(task), ", ", EscapeHtml(RunName(runs, i)), ": ",
                      EscapeHtml(cause), "</li>\n");
    }
  }
  if (items.empty()) return "";
  return absl::StrCat("<details><summary>Left out</summary>\n<ul>\n", items, "</ul></details>\n");
}

}  // namespace

std::string TasksSection(std::span<const ReportRun> runs) {
  const std::vector<Contender> contenders = ContendersOf(runs);
  const std::vector<std::string> tasks = TaskNames(runs);
  if (contenders.empty() || tasks.empty()) return "";
  HtmlTable table{.header = {"task", "metric", "shots", "examples", "chance"}, .rows = {}};
  for (const Contender& contender : contenders) {
    table.header.push_back(absl::StrCat(RunLabel(runs, contender.run), "<br/>",
                                        RoutingName(contender.routing), " routing"));
  }
  for (const std::string& task : tasks) table.rows.push_back(RowOf(runs, contenders, task));
  return Section(
      "Tasks",
      "In-context evaluation in percent, with 95 % bootstrap intervals over examples. "
      "Prompt routing makes one decision for the whole prompt, segment routing one for each "
      "segment, as in training. A score whose interval includes chance cannot be distinguished "
      "from guessing. Filled: prompt routing; hollow: segment routing; dashed: chance.",
      RunNotes(runs, &ReportRun::tasks_note) + Chart(runs, contenders, tasks) + RenderTable(table) +
          Skipped(runs),
      "tasks");
}

}  // namespace braid
