#include "client/terminal/tasks_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/terminal/model_name.h"
#include "client/terminal/tables.h"
#include "evaluation/tasks/task_figures.h"
#include "evaluation/tasks/task_files.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

using Row = std::vector<std::string>;

std::string Percent(double share) { return absl::StrFormat("%.1f", 100 * share); }

// Returns whether a figure is not a share.
bool IsPlainNumber(const std::string& metric) {
  return metric == FigureName(v1::NIST) || metric == FigureName(v1::CIDER) ||
         metric == FigureName(v1::ANSWER_LOSS);
}

std::string FigureText(const std::string& metric, double value) {
  return IsPlainNumber(metric) ? absl::StrFormat("%.3f", value) : Percent(value);
}

std::string IntervalText(const std::string& metric, const v1::Interval& interval) {
  return absl::StrCat("[", FigureText(metric, interval.low()), ", ",
                      FigureText(metric, interval.high()), "]");
}

std::string WithInterval(const v1::TaskMetric& metric) {
  const std::string value = FigureText(metric.name(), metric.value());
  if (!metric.has_interval()) return value;
  return absl::StrCat(value, " ", IntervalText(metric.name(), metric.interval()));
}

// A task, scored with this number of active experts (0: no such choice).
using TaskKey = std::pair<std::string, int>;

TaskKey KeyOf(const v1::TaskResult& result) { return {result.task(), result.active_experts()}; }

// Returns "piqa", or "piqa, 2 experts".
std::string TaskName(const v1::TaskResult& result) {
  const int active = result.active_experts();
  if (active == 0 || result.varying_experts()) return result.task();
  return absl::StrCat(result.task(), ", ", active, active == 1 ? " expert" : " experts");
}

// A model, "" for the only one, under a routing.
using ColumnKey = std::pair<std::string, v1::InferenceRouting>;

ColumnKey ColumnOf(const v1::TaskResult& result) { return {result.model(), result.routing()}; }

std::string ColumnName(const ColumnKey& column, const std::set<std::string>& models) {
  const std::string routing =
      column.second == v1::PROMPT_ROUTING ? "PROMPT ROUTING" : "SEGMENT ROUTING";
  if (column.first.empty()) return routing;
  return absl::StrCat(ModelName(column.first, models), ", ", routing);
}

// Returns the models of the results; "" for the only one.
std::set<std::string> ModelsOf(const v1::TasksResult& result) {
  std::set<std::string> models;
  for (const v1::TaskResult& one : result.results()) models.insert(one.model());
  return models;
}

// Returns the results of one task in the order of the columns; nullptr for a column without result.
std::vector<const v1::TaskResult*> ByColumn(const v1::TasksResult& result, const TaskKey& task,
                                            const std::vector<ColumnKey>& columns) {
  std::vector<const v1::TaskResult*> found(columns.size(), nullptr);
  for (const v1::TaskResult& one : result.results()) {
    if (KeyOf(one) != task) continue;
    const auto column = std::ranges::find(columns, ColumnOf(one)) - columns.begin();
    found[static_cast<size_t>(column)] = &one;
  }
  return found;
}

// Returns "5", or "2.4" when fewer shots than requested fit.
std::string ShotsShown(const v1::TaskResult& result) {
  const double shown = result.mean_shots();
  return absl::StrFormat(shown == std::floor(shown) ? "%.0f" : "%.1f", shown);
}

// Returns what `text` says of the columns that have a result, each once: "4", or "2, 4" for models
// that differ.
std::string OfColumns(const std::vector<const v1::TaskResult*>& columns,
                      absl::FunctionRef<std::string(const v1::TaskResult&)> text) {
  std::vector<std::string> distinct;
  for (const v1::TaskResult* column : columns) {
    if (column == nullptr) continue;
    const std::string one = text(*column);
    const bool is_new = std::ranges::find(distinct, one) == distinct.end();
    if (is_new && !one.empty()) distinct.push_back(one);
  }
  return absl::StrJoin(distinct, ", ");
}

std::string ExamplesShown(const v1::TaskResult& result) {
  return WithThousands(result.num_examples());
}

std::string CleanExamplesShown(const v1::TaskResult& result) {
  return result.has_num_clean_examples() ? WithThousands(result.num_clean_examples()) : "";
}

std::string ShortenedShown(const v1::TaskResult& result) {
  return WithThousands(result.num_shortened());
}

Row FigureRow(const v1::TaskResult& first, int figure,
              const std::vector<const v1::TaskResult*>& columns) {
  const bool leads = figure == 0;
  Row row = {leads ? TaskName(first) : "", leads ? OfColumns(columns, ExamplesShown) : "",
             leads ? OfColumns(columns, ShotsShown) : "", first.metrics(figure).name(),
             leads && first.chance() > 0 ? Percent(first.chance()) : ""};
  for (const v1::TaskResult* column : columns) {
    row.push_back(column == nullptr ? "-" : WithInterval(column->metrics(figure)));
  }
  const std::string shortened = leads ? OfColumns(columns, ShortenedShown) : "";
  row.push_back(shortened == "0" ? "" : shortened);
  return row;
}

// Returns the row of the main metric over the clean examples.
Row CleanRow(const v1::TaskResult& first, const std::vector<const v1::TaskResult*>& columns) {
  Row row = {"  clean", OfColumns(columns, CleanExamplesShown), "", first.metrics(0).name(), ""};
  for (const v1::TaskResult* column : columns) {
    const bool known = column != nullptr && !column->clean_metrics().empty();
    row.push_back(known ? WithInterval(column->clean_metrics(0)) : "-");
  }
  row.push_back("");
  return row;
}

std::string ChanceOf(const v1::TaskSpec& task) {
  const double chance = UsualChance(task);
  return chance > 0 ? Percent(chance) : "-";
}

std::string Figures(const v1::TaskSpec& task) {
  std::vector<std::string> names;
  for (const int figure : task.figures()) {
    names.push_back(FigureName(static_cast<v1::TaskFigure>(figure)));
  }
  return absl::StrJoin(names, ", ");
}

std::string Presence(const v1::TaskSpec& task, const std::filesystem::path& data_dir) {
  const auto file = FindTaskFile(task.examples(), data_dir / TaskFolder(task));
  if (!file.ok() || *file == nullptr) return "missing";
  return absl::StrCat(TaskFolder(task), "/", (*file)->path());
}

std::string SourceText(const v1::ModelSource& source) {
  return absl::StrFormat("%s at step %d", source.checkpoint(), source.step());
}

// Prints what further models gain over the first.
void PrintComparisons(const v1::TasksResult& result, std::ostream& out) {
  if (result.comparisons().empty()) return;
  const std::set<std::string> models = ModelsOf(result);
  std::vector<Row> rows = {
      {"TASK", "METRIC", "MODEL", "MINUS", "DIFFERENCE", "ONLY MODEL", "ONLY BASELINE"}};
  for (const v1::TaskComparison& one : result.comparisons()) {
    const std::string difference = FigureText(one.metric(), one.difference());
    Row row = {one.task(), one.metric(), ColumnName({one.model(), one.routing()}, models),
               ModelName(one.baseline(), models),
               absl::StrCat(difference, " ", IntervalText(one.metric(), one.interval()))};
    const bool counted = one.num_only_model() + one.num_only_baseline() > 0;
    row.push_back(counted ? WithThousands(one.num_only_model()) : "");
    row.push_back(counted ? WithThousands(one.num_only_baseline()) : "");
    rows.push_back(std::move(row));
  }
  out << "\n";
  PrintTable(rows, out);
}

}  // namespace

void PrintTasksResult(const v1::TasksResult& result, std::ostream& out) {
  std::vector<TaskKey> tasks;
  std::vector<ColumnKey> keys;
  for (const v1::TaskResult& one : result.results()) {
    if (std::ranges::find(tasks, KeyOf(one)) == tasks.end()) tasks.push_back(KeyOf(one));
    if (std::ranges::find(keys, ColumnOf(one)) == keys.end()) keys.push_back(ColumnOf(one));
  }
  Row header = {"TASK", "EXAMPLES", "SHOTS", "METRIC", "CHANCE"};
  for (const ColumnKey& key : keys) header.push_back(ColumnName(key, ModelsOf(result)));
  header.push_back("SHORTENED");
  std::vector<Row> rows = {header};
  for (const TaskKey& task : tasks) {
    const auto columns = ByColumn(result, task, keys);
    const v1::TaskResult& first = **std::ranges::find_if(columns, [](auto* one) { return one; });
    for (int figure = 0; figure < first.metrics_size(); ++figure) {
      rows.push_back(FigureRow(first, figure, columns));
    }
    const bool compared = std::ranges::any_of(
        columns, [](auto* one) { return one != nullptr && one->has_num_clean_examples(); });
    if (compared) rows.push_back(CleanRow(first, columns));
  }
  PrintTable(rows, out);
  PrintComparisons(result, out);
  out << "\n" << SourceText(result.source());
  for (const v1::ModelSource& other : result.further_sources()) out << ", " << SourceText(other);
  out << "; percent with 95 % confidence intervals over examples\n";
  const std::map<std::string, std::string> skipped(result.skipped().begin(),
                                                   result.skipped().end());
  for (const auto& [task, cause] : skipped) out << "skipped: " << cause << "\n";
  for (const v1::TaskResult& one : result.results()) {
    if (one.num_damaged_answers() == 0) continue;
    out << "warning: " << one.task() << ": stored answers without a right checksum, not used: "
        << WithThousands(one.num_damaged_answers())
        << " (damaged, or written by an older version)\n";
  }
}

void PrintTaskList(const std::vector<v1::TaskSpec>& tasks, const std::filesystem::path& data_dir,
                   std::ostream& out) {
  std::vector<Row> rows = {{"TASK", "SHOTS", "CHANCE", "METRICS", "TITLE"}};
  for (const v1::TaskSpec& task : tasks) {
    rows.push_back(
        {task.name(), absl::StrCat(task.num_shots()), ChanceOf(task), Figures(task), task.title()});
  }
  PrintTable(rows, out);
  out << "\n";
  std::vector<Row> files = {{"TASK", "FILES BELOW --data"}};
  if (!data_dir.empty()) files[0].insert(files[0].begin() + 1, "FOUND");
  for (const v1::TaskSpec& task : tasks) {
    Row row = {task.name(), ExpectedFiles(task)};
    if (!data_dir.empty()) row.insert(row.begin() + 1, Presence(task, data_dir));
    files.push_back(std::move(row));
  }
  PrintTable(files, out);
}

}  // namespace braid
