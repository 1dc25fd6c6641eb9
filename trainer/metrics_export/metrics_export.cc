#include "trainer/metrics_export/metrics_export.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/event_file.h"
#include "formats/status_macros.h"
#include "trainer/metrics_export/csv_table.h"
#include "trainer/metrics_export/run_events.h"
#include "trainer/metrics_export/series_summary.h"
#include "trainer/metrics_export/text_tables.h"
#include "trainer/metrics_reader.h"

namespace braid {
namespace {

// Far below what a message may hold, and large enough for calls not to count.
constexpr size_t kChunkBytes = 256 << 10;

// Gathers a file's parts into chunks.
class ChunkedFile {
 public:
  ChunkedFile(std::string name, const ChunkSink& sink) : sink_(sink) {
    chunk_.set_file_name(std::move(name));
  }
  absl::Status Append(std::string_view data) {
    chunk_.mutable_data()->append(data);
    return chunk_.data().size() < kChunkBytes ? absl::OkStatus() : Send();
  }
  // An empty file is a chunk too.
  absl::Status Finish() {
    return chunk_.data().empty() && chunk_.file_name().empty() ? absl::OkStatus() : Send();
  }

 private:
  absl::Status Send() {
    const absl::Status status = sink_(chunk_);
    chunk_.Clear();
    return status;
  }

  const ChunkSink& sink_;
  v1::ExportMetricsChunk chunk_;
};

absl::StatusOr<std::string> ReadIfPresent(const std::filesystem::path& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

// Most lines measure no routing and name no column of their own: they need not be parsed.
bool MayHaveRouting(const std::string& line) {
  return line.find("\"routing\"") != std::string::npos &&
         line.find("\"routing\":[]") == std::string::npos;
}

absl::Status ExportCsv(MetricsReader& reader, const std::string& name, const ChunkSink& sink) {
  CsvTable table;
  while (reader.NextLine()) {
    if (!MayHaveRouting(reader.line())) continue;
    ASSIGN_OR_RETURN(const v1::StepMetrics metrics, reader.Parse());
    table.Add(metrics);
  }
  ChunkedFile file(name + "/metrics.csv", sink);
  RETURN_IF_ERROR(file.Append(table.Header()));
  reader.Rewind();
  while (reader.NextLine()) {
    ASSIGN_OR_RETURN(const v1::StepMetrics metrics, reader.Parse());
    RETURN_IF_ERROR(file.Append(table.Row(metrics)));
  }
  return file.Finish();
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

// What was found out about the run after its newest step.
absl::Status AppendFindings(const RunDirectory& run, const v1::StepMetrics& newest,
                            ChunkedFile* file) {
  ASSIGN_OR_RETURN(const auto evaluation, ReadEvaluation(run.evaluation()));
  if (evaluation) {
    RETURN_IF_ERROR(file->Append(RecordOf(EvaluationEvent(newest.time(), *evaluation))));
    RETURN_IF_ERROR(file->Append(RecordOf(TextEvent(
        newest.time(), evaluation->step(), "run/evaluation", EvaluationTable(*evaluation)))));
  }
  ASSIGN_OR_RETURN(const std::string sample, ReadIfPresent(run.sample()));
  if (sample.empty()) return absl::OkStatus();
  return file->Append(
      RecordOf(TextEvent(newest.time(), newest.step(), "run/sample", Verbatim(sample))));
}

// The same name for the same run, so that a later export replaces it.
std::string NameOfEvents(const v1::StepMetrics& first) {
  const double time = std::isfinite(first.time()) ? std::clamp(first.time(), 0.0, 9999999999.0) : 0;
  return EventFileName(static_cast<int64_t>(time), "braid", 0);
}

absl::Status ExportEvents(const RunDirectory& run, const v1::RunSpec& spec, MetricsReader& reader,
                          const std::string& name, const ChunkSink& sink) {
  v1::StepMetrics metrics;
  if (reader.NextLine()) {
    ASSIGN_OR_RETURN(metrics, reader.Parse());
  }
  ChunkedFile file(absl::StrCat(name, "/", NameOfEvents(metrics)), sink);
  RETURN_IF_ERROR(file.Append(RecordOf(VersionEvent(metrics.time()))));
  RETURN_IF_ERROR(file.Append(RecordOf(
      TextEvent(metrics.time(), metrics.step(), "run/configuration", ConfigurationTable(spec)))));
  if (reader.line_number() > 0) RETURN_IF_ERROR(file.Append(RecordOf(StepEvent(metrics))));
  while (reader.NextLine()) {
    ASSIGN_OR_RETURN(metrics, reader.Parse());
    RETURN_IF_ERROR(file.Append(RecordOf(StepEvent(metrics))));
  }
  RETURN_IF_ERROR(AppendFindings(run, metrics, &file));
  return file.Finish();
}

absl::Status ExportSummary(MetricsReader& reader, const std::string& name, const ChunkSink& sink) {
  SeriesSummary series;
  while (reader.NextLine()) {
    ASSIGN_OR_RETURN(const v1::StepMetrics metrics, reader.Parse());
    series.Add(metrics);
  }
  v1::ExportMetricsChunk chunk;
  *chunk.mutable_summary() = series.Summary();
  chunk.mutable_summary()->set_run(name);
  return sink(chunk);
}

bool IsPlain(unsigned char c) {
  return absl::ascii_isalnum(c) || c >= 0x80 || c == '-' || c == '_' || c == '.';
}

}  // namespace

std::string ExportName(const RunDirectory& run, const v1::RunSpec& spec) {
  std::filesystem::path root = run.root();
  if (!root.has_filename()) root = root.parent_path();
  std::string name = root.filename().string();
  if (!spec.name().empty()) absl::StrAppend(&name, "-", spec.name());
  std::ranges::replace_if(
      name, [](unsigned char c) { return !IsPlain(c); }, '_');
  return name.find_first_not_of('.') == std::string::npos ? "run" : name;
}

absl::Status ExportMetrics(const RunDirectory& run, v1::MetricsFormat format,
                           const ChunkSink& sink) {
  ASSIGN_OR_RETURN(const v1::RunSpec spec, run.ReadSpec());
  const std::string name = ExportName(run, spec);
  MetricsReader reader(run.metrics());
  switch (format) {
    case v1::CSV:
      return ExportCsv(reader, name, sink);
    case v1::TENSORBOARD:
      return ExportEvents(run, spec, reader, name, sink);
    case v1::SUMMARY:
      return ExportSummary(reader, name, sink);
    default:
      return absl::InvalidArgumentError("format: got none, expected CSV, TENSORBOARD or SUMMARY");
  }
}

}  // namespace braid
