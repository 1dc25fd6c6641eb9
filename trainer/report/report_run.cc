#include "trainer/report/report_run.h"

#include <google/protobuf/util/json_util.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

// Empty when there is no such file.
absl::StatusOr<std::string> ReadIfPresent(const std::filesystem::path& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok() && absl::IsNotFound(text.status())) return std::string();
  return text;
}

absl::StatusOr<std::optional<v1::Evaluation>> ReadEvaluation(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadIfPresent(path));
  if (text.empty()) return std::nullopt;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::Evaluation evaluation;
  if (google::protobuf::util::JsonStringToMessage(text, &evaluation, options).ok()) {
    return evaluation;
  }
  return absl::DataLossError(absl::StrCat(path.string(), ": not an evaluation; evaluate again"));
}

}  // namespace

absl::StatusOr<ReportRun> ReadReportRun(const RunDirectory& run) {
  ReportRun report;
  ASSIGN_OR_RETURN(report.spec, run.ReadSpec());
  ASSIGN_OR_RETURN(report.metrics, run.ReadMetrics(0));
  ASSIGN_OR_RETURN(report.evaluation, ReadEvaluation(run.root() / "evaluation.json"));
  ASSIGN_OR_RETURN(report.sample_text, ReadIfPresent(run.root() / "sample.txt"));
  const std::filesystem::path dataset = report.spec.dataset_dir();
  ASSIGN_OR_RETURN(report.ordering_report_json, ReadIfPresent(dataset / "ordering_report.json"));
  const std::string id = run.root().filename().string();
  report.title = report.spec.name().empty() ? id : absl::StrCat(report.spec.name(), " (", id, ")");
  return report;
}

}  // namespace braid
