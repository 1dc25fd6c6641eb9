#include "client/terminal/tables.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/display_name.h"
#include "base/number_text.h"
#include "braid/v1/pipeline.pb.h"
#include "client/terminal/explanation_tables.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/run_view.h"
#include "client/terminal/stage_figures.h"
#include "client/terminal/terminal_text.h"
#include "proto/state_name.h"

namespace braid {
namespace {

// Lines are not cut, because the output may go into a file.
constexpr int kUnlimitedWidth = 10000;

void Field(const std::string& name, const std::string& value, std::ostream& out) {
  out << absl::StrFormat("%-18s %s\n", name, value);
}

// Returns the progress of a stage with its figures.
std::string StageLine(const v1::StageProgress& stage) {
  if (stage.reused()) return "reused";
  const std::string total = stage.total() > 0 ? absl::StrCat("/", stage.total()) : "";
  const std::string state = stage.complete()
                                ? absl::StrCat("done in ", FormatClock(stage.seconds()))
                                : absl::StrCat(stage.done(), total, " ", stage.unit());
  const std::string figures = StageFigures(stage);
  return figures.empty() ? state : absl::StrCat(state, "  ", figures);
}

// Returns "1,000 read = 900 packed + ...".
std::string DocumentSum(const v1::JobResult& result, bool report_only) {
  const std::string overlaps =
      result.num_heldout_overlaps() == 0
          ? ""
          : absl::StrCat(" + ", WithThousands(result.num_heldout_overlaps()),
                         " overlapping held-out");
  const std::string contaminated =
      result.num_contaminated() == 0 || report_only
          ? ""
          : absl::StrCat(" + ", WithThousands(result.num_contaminated()), " contaminated");
  const std::string filtered =
      result.num_filtered() == 0
          ? ""
          : absl::StrCat(" + ", WithThousands(result.num_filtered()), " filtered");
  return absl::StrFormat(
      "%s read = %s packed + %s held out%s%s + %s duplicates (%s exact) + %s rejected%s",
      WithThousands(result.num_documents_read()), WithThousands(result.num_documents()),
      WithThousands(result.num_heldout()), overlaps, contaminated,
      WithThousands(result.num_duplicates()), WithThousands(result.num_exact_duplicates()),
      WithThousands(result.num_rejected()), filtered);
}

// Prints a table of the evaluation files and their matches.
void PrintContamination(const v1::Job& job, std::ostream& out) {
  const v1::JobResult& result = job.result();
  if (result.contamination().empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"EVALUATION FILE", "TEXTS", "SHORT", "MATCHED TEXTS", "MATCHED DOCUMENTS"}};
  for (const v1::ContaminationSummary& file : result.contamination()) {
    rows.push_back({OneLine(file.file()), WithThousands(file.num_texts()),
                    WithThousands(file.num_short_texts()), WithThousands(file.num_matched_texts()),
                    WithThousands(file.num_matched_documents())});
  }
  const bool report_only = job.spec().decontaminate().report_only();
  out << absl::StrFormat("\ndocuments that share 13 words with evaluation text: %s, %s\n",
                         WithThousands(result.num_contaminated()),
                         report_only ? "kept" : "dropped");
  PrintTable(rows, out);
}

}  // namespace

std::string NameText(const std::string& name) {
  return ClipColumns(OneLine(name), static_cast<int>(kMaxNameBytes));
}

void PrintJob(const v1::Job& job, std::ostream& out) {
  Field("job", absl::StrCat(job.id(), "  ", NameText(job.spec().name())), out);
  Field("state", StateName(job.state()), out);
  if (!job.error().empty()) Field("error", PrintableText(job.error()), out);
  for (const v1::StageProgress& stage : job.stages()) {
    Field(absl::StrCat("  ", stage.stage()), StageLine(stage), out);
    for (const std::string& note : stage.notes()) Field("  note", PrintableText(note), out);
  }
  if (!job.has_result()) return;
  const v1::JobResult& result = job.result();
  Field("documents", DocumentSum(result, job.spec().decontaminate().report_only()), out);
  if (result.num_truncated() > 0) {
    Field("truncated",
          Counted(result.num_truncated(), "document") + " longer than the embedder's input", out);
  }
  Field("instances",
        absl::StrFormat("%s with %s", WithThousands(result.num_instances()),
                        Counted(result.num_tokens(), "token")),
        out);
  Field("adjacent cosine",
        absl::StrFormat("%.3f (random order %.3f)", result.adjacent_cosine(),
                        result.random_adjacent_cosine()),
        out);
  if (result.num_heldout() > 0) {
    Field("held-out overlap",
          absl::StrFormat("%.2f %% of 13-word runs are in training documents; %s by more than half",
                          100 * result.heldout_shared_runs(),
                          Counted(result.num_heldout_mostly_shared(), "document")),
          out);
  }
  Field("recall@k", absl::StrFormat("%.3f", result.recall_at_k()), out);
  Field("dataset", result.dataset_dir(), out);
  PrintContamination(job, out);
}

void PrintJobs(const v1::ListJobsResponse& jobs, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "NAME", "STATE", "ORDER", "DOCUMENTS", "TOKENS", "CREATED (UTC)"}};
  for (const v1::Job& job : jobs.jobs()) {
    rows.push_back({job.id(), NameText(job.spec().name()), StateName(job.state()),
                    std::string(v1::OrderMode_Name(job.spec().order())),
                    WithThousands(job.result().num_documents()),
                    WithThousands(job.result().num_tokens()), FormatTime(job.created_at())});
  }
  if (rows.size() == 1) out << "no jobs; submit one with: braid submit PATH\n";
  if (rows.size() > 1) PrintTable(rows, out);
}

void PrintRun(const v1::Run& run, std::ostream& out) {
  const double now = UnixTime();
  for (const std::string& line : RunLines(run, {}, now, kUnlimitedWidth)) out << line << "\n";
}

void PrintRuns(const v1::ListRunsResponse& runs, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {"RUN", "NAME", "STATE", "STEP", "LOSS", "TOKENS/S", "CREATED (UTC)"}};
  for (const v1::Run& run : runs.runs()) {
    rows.push_back(
        {run.id(), NameText(run.spec().name()), StateName(run.state()),
         absl::StrCat(run.latest().step(), "/",
                      run.spec().num_steps() > 0 ? absl::StrCat(run.spec().num_steps()) : "?"),
         run.has_latest() ? absl::StrFormat("%.3f", run.latest().loss()) : "-",
         CompactCount(run.latest().tokens_per_second()), FormatTime(run.created_at())});
  }
  if (rows.size() == 1) out << "no runs; start one with: braid train --data JOB\n";
  if (rows.size() > 1) PrintTable(rows, out);
}

void PrintModel(const v1::DescribeModelResponse& model, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"PARAMETERS", ""}};
  for (const v1::ParameterGroup& group : model.groups()) {
    rows.push_back({group.name(), WithThousands(group.num_parameters())});
  }
  rows.push_back({"total", WithThousands(model.num_parameters())});
  rows.push_back({"active per token", WithThousands(model.num_active_parameters())});
  PrintTable(rows, out);
  out << absl::StrFormat(
      "\nweights, gradients and AdamW moments (fp32): %s\n"
      "training FLOPs per token: %.4g, plus %.1f %% to merge experts\n",
      FormatBytes(model.training_state_bytes()), model.flops_per_token(),
      100 * model.merge_flops_per_token() / std::max(model.flops_per_token(), 1.0));
  if (!model.has_forecast()) return;
  out << "\n";
  PrintForecast(model.forecast(), out);
}

void PrintForecast(const v1::Forecast& f, std::ostream& out) {
  // Links are given in powers of ten.
  const auto sent = [](double bytes) { return CompactCount(bytes) + "B"; };
  std::vector<std::vector<std::string>> rows = {
      {absl::StrCat("PER RANK (", absl::AsciiStrToUpper(Counted(f.request().world_size(), "rank")),
                    ")"),
       "REPLICATED", "ZERO-1"},
      {"weights", FormatBytes(f.weight_bytes()), FormatBytes(f.weight_bytes())},
      {"gradients", FormatBytes(f.gradient_bytes()), FormatBytes(f.gradient_bytes())},
      {"moments", FormatBytes(f.moment_bytes()), FormatBytes(f.moment_bytes_zero_1())},
      {absl::StrFormat("activations (%d x L)", f.request().micro_batch_size()),
       FormatBytes(f.activation_bytes()), FormatBytes(f.activation_bytes())},
      {"total", FormatBytes(f.total_bytes()), FormatBytes(f.total_bytes_zero_1())},
      {"sent per step", sent(f.all_reduce_bytes()), sent(f.zero_1_bytes())}};
  PrintTable(rows, out);
  out << absl::StrFormat("\na step of %s: %.4g FLOPs per rank, %.1f %% for merging experts\n",
                         Counted(f.request().global_batch_size(), "sequence"), f.step_flops(),
                         100 * f.step_merge_flops() / f.step_flops());
  if (f.cache_bytes() > 0) {
    out << "cache of decoding one sequence: " << FormatBytes(f.cache_bytes()) << "\n";
  }
  if (f.step_seconds() == 0) {
    out << "add --gflops and --link to estimate the time per step\n";
    return;
  }
  out << absl::StrFormat("arithmetic %.3f s, communication %.3f s, step %.3f s\n",
                         f.compute_seconds(), f.communication_seconds(), f.step_seconds());
}

}  // namespace braid
