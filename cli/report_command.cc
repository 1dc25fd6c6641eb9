// The command "report".
#include <iostream>

#include "base/staged_output.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kMaxCauseColumns = 1000;

struct ReportOptions {
  std::vector<std::string> runs;
  // Default: report.html; with --json, no page unless this is set.
  std::string output;
};

absl::Status WritePage(const std::string& path, const v1::ReportResponse& response) {
  RETURN_IF_ERROR(WriteUserFile(path, response.html()));
  // Names of runs and files are untrusted text.
  for (const std::string& cause : response.left_out()) {
    std::cerr << "omitted: " << ClipColumns(cause, kMaxCauseColumns) << "\n";
  }
  std::cerr << std::flush;
  return absl::OkStatus();
}

absl::Status Report(Session& session, const ReportOptions& options) {
  v1::ReportRequest request;
  for (const std::string& run : options.runs) request.add_runs(ModelReference(run));
  request.set_with_data(session.json);
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ASSIGN_OR_RETURN(const v1::ReportResponse response, client.Report(request));
  if (!session.json) {
    const std::string output = options.output.empty() ? "report.html" : options.output;
    RETURN_IF_ERROR(WritePage(output, response));
    std::cout << "wrote " << output << std::endl;
    return absl::OkStatus();
  }
  if (!options.output.empty()) RETURN_IF_ERROR(WritePage(options.output, response));
  std::cout << response.data() << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CommandLine& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      program.app.add_subcommand("report", "Write a self-contained HTML report that compares runs");
  command->add_option("runs", options->runs, "Run ids or run directories")->required();
  command
      ->add_option("-o,--output", options->output,
                   "Output file (default: report.html; none with --json)")
      ->check(NotEmpty("a file"))
      ->check(NotStandardOutput())
      ->check(OutsideOfRecords());
  command->footer(
      "With --json, the data of the report is printed to standard output; docs/report.md\n"
      "describes it.\n\n"
      "Examples:\n"
      "  braid report run-000001 run-000002 -o compare.html\n"
      "  braid report runs/* --json | jq '.comparisons'");
  command->callback([&program, options] {
    program.action = [&program, options] { return Report(program.session, *options); };
  });
}

}  // namespace braid
