#include "report/report_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "runs/model_path.h"
#include "runs/run_evaluation.h"

namespace braid {
namespace {

// Samples beyond this number are not read, so that they do not dominate the page.
constexpr int64_t kMaxSamples = 24;

void ReadTasks(const RunDirectory& run, ReportRun* report) {
  const std::filesystem::path path = run.root() / "tasks" / "result.json";
  const absl::StatusOr<std::string> text = ReadIfPresent(path);
  v1::TasksResult tasks;
  if (text.ok() && !text->empty() && ParseKeptResult(*text, path, &tasks).ok()) {
    report->tasks = std::move(tasks);
  }
  if (!report->tasks) {
    report->left_out.push_back(
        text.ok() && text->empty()
            ? "task scores: no tasks/result.json; create it with 'braid eval tasks'"
            : "task scores: tasks/result.json is damaged");
  }
}

void ReadLife(const RunDirectory& run, ReportRun* report) {
  absl::StatusOr<RunLife> life = ReadRunLife(run.events());
  if (life.ok()) report->life = *std::move(life);
  if (report->life.started == 0) {
    report->life = LifeOfSteps(report->metrics);
    report->left_out.push_back(life.ok() ? "states and incidents: no events.jsonl"
                                         : "states and incidents: events.jsonl is damaged");
  }
  report->heartbeats = run.ReadHeartbeats();
}

void ReadMoreSamples(const RunDirectory& run, ReportRun* report) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(run.root() / "samples", error)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (std::ssize(paths) > kMaxSamples) {
    report->left_out.push_back(
        absl::StrCat("samples: ", Counted(std::ssize(paths) - kMaxSamples, "file"),
                     " of samples/ beyond the first ", kMaxSamples));
    paths.resize(kMaxSamples);
  }
  for (const std::filesystem::path& path : paths) {
    absl::StatusOr<std::string> text = ReadFile(path);
    if (text.ok()) report->more_samples.push_back({path.filename().string(), *std::move(text)});
  }
}

// Returns which step a result is of, when it is not the newest of the run; else "".
template <class Result>
std::string StepNote(const Result& result, const std::vector<v1::StepMetrics>& metrics) {
  std::string note = FallbackNote(result.source());
  const int64_t newest = metrics.empty() ? 0 : metrics.back().step();
  if (!note.empty() || result.step() == 0 || result.step() >= newest) return note;
  return absl::StrCat("measured at step ", result.step(), "; the run has trained to step ", newest);
}

int64_t NumNotFinite(const std::vector<v1::StepMetrics>& metrics) {
  return std::count_if(metrics.begin(), metrics.end(),
                       [](const v1::StepMetrics& step) { return !std::isfinite(step.loss()); });
}

void NoteWhatIsMissing(ReportRun* report) {
  const auto note = [&](std::string text) { report->left_out.push_back(std::move(text)); };
  if (report->metrics.empty()) {
    note("curves and speed: no step in metrics.jsonl yet");
  } else if (const int64_t count = NumNotFinite(report->metrics); count > 0) {
    note(absl::StrCat("points of the loss: ", count, count == 1 ? " step has" : " steps have",
                      " a loss that is not finite"));
  }
  if (!report->metrics.empty() &&
      std::ranges::none_of(report->metrics, [](const auto& step) { return step.has_times(); })) {
    note("time of the parts of a step: no times in metrics.jsonl");
  }
  if (!report->evaluation) {
    note(
        "held-out perplexity and routing: no evaluation.json; create it with 'braid eval "
        "perplexity'");
  }
  if (!report->evaluation_note.empty()) {
    note(absl::StrCat("held-out perplexity of the newest step: ", report->evaluation_note));
  }
  if (!report->tasks_note.empty()) {
    note(absl::StrCat("task scores of the newest step: ", report->tasks_note));
  }
  if (report->ordering_report_json.empty()) {
    note("order of the documents: no ordering_report.json in the dataset");
  } else if (!nlohmann::json::parse(report->ordering_report_json, nullptr,
                                    /*allow_exceptions=*/false)
                  .is_object()) {
    note("order of the documents: ordering_report.json of the dataset is damaged");
  } else if (report->spec.datasets_size() > 1) {
    note("order of the documents: only the first dataset of the mixture is shown");
  }
  if (report->sample_text.empty() && report->more_samples.empty()) note("samples: no sample.txt");
}

}  // namespace

absl::StatusOr<ReportRun> ReadReportRun(const RunDirectory& run) {
  ReportRun report;
  ASSIGN_OR_RETURN(report.spec, run.ReadSpec());
  ASSIGN_OR_RETURN(report.metrics, run.ReadMetrics(0));
  ASSIGN_OR_RETURN(report.evaluation, ReadEvaluation(run));
  ASSIGN_OR_RETURN(report.by_active_experts, ReadActiveExperts(run));
  ASSIGN_OR_RETURN(report.sample_text, ReadIfPresent(run.root() / "sample.txt"));
  const std::filesystem::path dataset = report.spec.dataset_dir();
  ASSIGN_OR_RETURN(report.ordering_report_json, ReadIfPresent(dataset / "ordering_report.json"));
  ReadMoreSamples(run, &report);
  ReadTasks(run, &report);
  if (report.evaluation) report.evaluation_note = StepNote(*report.evaluation, report.metrics);
  if (report.tasks) report.tasks_note = StepNote(*report.tasks, report.metrics);
  NoteWhatIsMissing(&report);
  ReadLife(run, &report);
  const std::string id = run.root().filename().string();
  report.title = report.spec.name().empty() ? id : absl::StrCat(report.spec.name(), " (", id, ")");
  return report;
}

absl::StatusOr<std::vector<ReportRun>> ReadReportRuns(
    std::span<const std::filesystem::path> directories) {
  std::vector<std::filesystem::path> roots;
  std::vector<ReportRun> runs;
  std::map<std::string, int> num_titled;
  for (const std::filesystem::path& directory : directories) {
    std::error_code error;
    std::filesystem::path root = std::filesystem::weakly_canonical(directory, error);
    if (error) root = directory;
    if (std::find(roots.begin(), roots.end(), root) != roots.end()) continue;
    ASSIGN_OR_RETURN(runs.emplace_back(), ReadReportRun(RunDirectory(root)));
    roots.push_back(std::move(root));
    ++num_titled[runs.back().title];
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (num_titled[runs[i].title] > 1) absl::StrAppend(&runs[i].title, " ", roots[i].string());
  }
  return runs;
}

}  // namespace braid
