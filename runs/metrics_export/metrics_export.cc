#include "runs/metrics_export/metrics_export.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "formats/event_file.h"
#include "runs/metrics_export/csv_table.h"
#include "runs/metrics_export/run_events.h"
#include "runs/metrics_export/series_summary.h"
#include "runs/metrics_export/text_tables.h"
#include "runs/metrics_reader.h"
#include "runs/run_evaluation.h"

namespace braid {
namespace {

// Far below the size limit of a message, and large enough that the cost per call is negligible.
constexpr size_t kChunkBytes = 256 << 10;

// Most file systems limit a directory name to 255 bytes.
constexpr size_t kMaxNameBytes = 200;

// Collects the parts of a file into chunks.
class ChunkedFile {
 public:
  ChunkedFile(std::string name, const ChunkSink& sink) : sink_(sink) {
    chunk_.set_file_name(std::move(name));
  }
  absl::Status Append(std::string_view data) {
    chunk_.mutable_data()->append(data);
    return chunk_.data().size() < kChunkBytes ? absl::OkStatus() : Send();
  }
  // An empty file is sent as one chunk.
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

size_t NumOccurrences(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// Most lines have no routing and add no columns, so they need not be parsed. Returns true for every
// line that has some: its field "routing" is present, plainly or with escapes, and not always
// empty.
bool MayHaveRouting(std::string_view line) {
  return line.find('\\') != line.npos ||
         NumOccurrences(line, "\"routing\"") != NumOccurrences(line, "\"routing\":[]");
}

// Returns the error for a line with routing that the first pass did not see: a resumed run has
// replaced it in the meantime.
absl::Status NewColumn(const RunDirectory& run, int64_t line, const absl::Status& cause) {
  return absl::DataLossError(absl::StrCat(run.metrics().string(), ": line ", line, ": ",
                                          cause.message(),
                                          ": the file changed while it was read; export again"));
}

absl::Status ExportCsv(const RunDirectory& run, MetricsReader& reader, const std::string& name,
                       const ChunkSink& sink) {
  CsvTable table;
  while (reader.NextLine()) {
    if (!MayHaveRouting(reader.line())) continue;
    ASSIGN_OR_RETURN(const v1::StepMetrics metrics, reader.Parse());
    table.Add(metrics);
  }
  ChunkedFile file(name + "/metrics.csv", sink);
  RETURN_IF_ERROR(file.Append(table.Header()));
  reader.Rewind();
  v1::StepMetrics metrics;
  while (reader.NextLine()) {
    ASSIGN_OR_RETURN(metrics, reader.Parse());
    const absl::StatusOr<std::string> row = table.Row(metrics);
    if (!row.ok()) return NewColumn(run, reader.line_number(), row.status());
    RETURN_IF_ERROR(file.Append(*row));
  }
  RETURN_IF_ERROR(reader.CheckEnd(metrics.step()));
  return file.Finish();
}

// Appends the results of the run's evaluation and its sample, dated at its newest step.
absl::Status AppendFindings(const RunDirectory& run, const v1::StepMetrics& newest,
                            ChunkedFile* file) {
  ASSIGN_OR_RETURN(const auto evaluation, ReadEvaluation(run));
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

absl::Status ExportEvents(const RunDirectory& run, const v1::RunSpec& spec, MetricsReader& reader,
                          const std::string& name, const ChunkSink& sink) {
  v1::StepMetrics metrics;
  if (reader.NextLine()) {
    ASSIGN_OR_RETURN(metrics, reader.Parse());
  }
  // The name does not depend on the run's progress, so that a later export replaces this one.
  ChunkedFile file(absl::StrCat(name, "/", EventFileName(0, "braid", 0)), sink);
  RETURN_IF_ERROR(file.Append(RecordOf(VersionEvent(metrics.time()))));
  RETURN_IF_ERROR(file.Append(RecordOf(
      TextEvent(metrics.time(), metrics.step(), "run/configuration", ConfigurationTable(spec)))));
  if (reader.line_number() > 0) RETURN_IF_ERROR(file.Append(RecordOf(StepEvent(metrics))));
  while (reader.NextLine()) {
    ASSIGN_OR_RETURN(metrics, reader.Parse());
    RETURN_IF_ERROR(file.Append(RecordOf(StepEvent(metrics))));
  }
  RETURN_IF_ERROR(reader.CheckEnd(metrics.step()));
  RETURN_IF_ERROR(AppendFindings(run, metrics, &file));
  return file.Finish();
}

absl::Status ExportSummary(MetricsReader& reader, const std::string& name, const ChunkSink& sink) {
  SeriesSummary series;
  v1::StepMetrics metrics;
  while (reader.NextLine()) {
    ASSIGN_OR_RETURN(metrics, reader.Parse());
    series.Add(metrics);
  }
  RETURN_IF_ERROR(reader.CheckEnd(metrics.step()));
  v1::ExportMetricsChunk chunk;
  *chunk.mutable_summary() = series.Summary();
  chunk.mutable_summary()->set_run(name);
  return sink(chunk);
}

bool IsPlain(unsigned char c) {
  return absl::ascii_isalnum(c) || c >= 0x80 || c == '-' || c == '_' || c == '.';
}

// Returns at most `length` bytes of UTF-8, cut between characters.
std::string Prefix(const std::string& text, size_t length) {
  return text.substr(0, Utf8PrefixLength(text, length));
}

}  // namespace

std::string ExportName(const RunDirectory& run, const v1::RunSpec& spec) {
  std::filesystem::path root = run.root();
  if (!root.has_filename()) root = root.parent_path();
  std::string name = root.filename().string();
  if (!spec.name().empty()) absl::StrAppend(&name, "-", spec.name());
  std::ranges::replace_if(
      name, [](unsigned char c) { return !IsPlain(c); }, '_');
  name = Prefix(ReplaceInvalidUtf8(name), kMaxNameBytes);
  return name.find_first_not_of('.') == std::string::npos ? "run" : name;
}

absl::Status ExportMetrics(const RunDirectory& run, v1::MetricsFormat format,
                           const ChunkSink& sink) {
  ASSIGN_OR_RETURN(const v1::RunSpec spec, run.ReadSpec());
  const std::string name = ExportName(run, spec);
  MetricsReader reader(run);
  switch (format) {
    case v1::CSV:
      return ExportCsv(run, reader, name, sink);
    case v1::TENSORBOARD:
      return ExportEvents(run, spec, reader, name, sink);
    case v1::SUMMARY:
      return ExportSummary(reader, name, sink);
    default:
      return absl::InvalidArgumentError("format: got none, expected CSV, TENSORBOARD or SUMMARY");
  }
}

}  // namespace braid
