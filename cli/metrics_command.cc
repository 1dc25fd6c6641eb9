// The command "metrics".
#include <iostream>
#include <utility>

#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "client/metrics_files.h"
#include "client/terminal/metrics_table.h"
#include "nlohmann/json.hpp"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct MetricsOptions {
  std::vector<std::string> runs;
  std::string csv, tensorboard;
};

v1::ExportMetricsRequest RequestOf(const std::string& run, v1::MetricsFormat format) {
  v1::ExportMetricsRequest request;
  request.set_run(ModelReference(run));
  request.set_format(format);
  return request;
}

absl::Status PrintSummaries(Session& session, const MetricsOptions& options,
                            AnalysisClient& client) {
  const char* separator = "";
  for (const std::string& run : options.runs) {
    v1::MetricsSummary summary;
    RETURN_IF_ERROR(
        client.ExportMetrics(RequestOf(run, v1::SUMMARY), [&](const v1::ExportMetricsChunk& chunk) {
          summary = chunk.summary();
          return absl::OkStatus();
        }));
    if (session.json) {
      std::cout << ToJson(summary) << std::endl;
      continue;
    }
    std::cout << std::exchange(separator, "\n");
    PrintMetricsSummary(summary, std::cout);
  }
  return absl::OkStatus();
}

absl::Status PrintCsv(const std::string& run, AnalysisClient& client) {
  return client.ExportMetrics(RequestOf(run, v1::CSV), [](const v1::ExportMetricsChunk& chunk) {
    std::cout << chunk.data();
    return std::cout ? absl::OkStatus() : absl::AbortedError("cannot write to standard output");
  });
}

void PrintWritten(const WrittenFile& file, bool json) {
  const nlohmann::json line = {{"path", file.path.string()}, {"bytes", file.bytes}};
  if (json) {
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else {
    std::cout << "wrote " << file.path.string() << std::endl;
  }
}

absl::Status WriteFiles(Session& session, const MetricsOptions& options, AnalysisClient& client) {
  const bool csv = !options.csv.empty();
  MetricsFiles files =
      csv ? MetricsFiles::Into(options.csv) : MetricsFiles::Below(options.tensorboard);
  size_t printed = 0;
  for (const std::string& run : options.runs) {
    RETURN_IF_ERROR(client.ExportMetrics(
        RequestOf(run, csv ? v1::CSV : v1::TENSORBOARD),
        [&](const v1::ExportMetricsChunk& chunk) { return files.Take(chunk); }));
    RETURN_IF_ERROR(files.FinishRun());
    if (files.written().size() == printed)
      return absl::InternalError("the server returned no metrics file");
    while (printed < files.written().size()) PrintWritten(files.written()[printed++], session.json);
  }
  return absl::OkStatus();
}

absl::Status Metrics(Session& session, const MetricsOptions& options) {
  const bool csv = !options.csv.empty();
  if (csv && options.runs.size() > 1) {
    return absl::InvalidArgumentError(
        "--csv: got several runs, expected one run; call the command once per run");
  }
  if (options.csv == "-" && session.json) {
    return absl::InvalidArgumentError(
        "--csv -: cannot be combined with --json, since both print to standard output");
  }
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  if (options.csv == "-") {
    const absl::Status printed = PrintCsv(options.runs.front(), client);
    // A failed write to standard output is reported in one place for all commands
    // (cli/arguments.h).
    return std::cout ? printed : absl::OkStatus();
  }
  if (csv || !options.tensorboard.empty()) return WriteFiles(session, options, client);
  return PrintSummaries(session, options, client);
}

}  // namespace

void AddMetricsCommand(CommandLine& program) {
  auto options = std::make_shared<MetricsOptions>();
  CLI::App* command = program.app.add_subcommand(
      "metrics", "Summarize or export the metrics of training runs (CSV, TensorBoard)");
  command->add_option("runs", options->runs, "Run ids or run directories")->required();
  CLI::Option* csv =
      command
          ->add_option("--csv", options->csv,
                       "Write all series of one run to a CSV file; - is standard output")
          ->check(NotEmpty("a file"))
          ->check(OutsideOfRecords());
  command
      ->add_option("--tensorboard", options->tensorboard,
                   "Write TensorBoard event files to this directory, in a folder per run")
      ->check(NotEmpty("a directory"))
      ->excludes(csv);
  command->footer(
      "Examples:\n"
      "  braid metrics run-000001                    # last, minimum and maximum values\n"
      "  braid metrics run-000001 --csv loss.csv\n"
      "  braid metrics run-000001 --csv - | cut -d, -f1,3\n"
      "  braid metrics run-000001 run-000002 --tensorboard board && tensorboard --logdir board");
  command->callback([&program, options] {
    program.action = [&program, options] { return Metrics(program.session, *options); };
  });
}

}  // namespace braid
