// report
#include <iostream>

#include "cli/commands/command.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output = "report.html";
};

absl::Status Report(Session& session, const ReportOptions& options) {
  v1::ReportRequest request;
  for (const std::string& run : options.runs) request.add_runs(ModelReference(run));
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ASSIGN_OR_RETURN(const v1::ReportResponse response, client.Report(request));
  RETURN_IF_ERROR(WriteFileAtomically(options.output, response.html()));
  std::cout << "wrote " << options.output << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(Program& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = program.app.add_subcommand("report", "One self-contained HTML page on runs");
  command->add_option("runs", options->runs, "Run ids or run directories")->required();
  command->add_option("-o,--output", options->output, "File to write")->capture_default_str();
  command->footer("Example:\n  braid report run-000001 run-000002 -o compare.html");
  command->callback([&program, options] {
    program.action = [&program, options] { return Report(program.session, *options); };
  });
}

}  // namespace braid
