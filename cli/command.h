// A command adds its options to the parser and, when chosen, leaves its action.
#ifndef BRAID_CLI_COMMAND_H_
#define BRAID_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "client/session.h"
#include "google/protobuf/message.h"

namespace braid {

struct Program {
  CLI::App app{"braid: from a raw corpus to a segment-routed soft-MoE language model"};
  Session session;
  // Set by the chosen command.
  std::function<absl::Status()> action;
};

// Settings given as --config FILE and --set KEY=VALUE.
struct ConfigOptions {
  std::string file;
  std::vector<std::string> assignments;

  void AddTo(CLI::App* command, const std::string& message_name);
  // Applies the file, then the assignments.
  absl::Status Apply(google::protobuf::Message* message) const;
};

// A run id as it is; a path made absolute, since a server has another directory.
std::string ModelReference(const std::string& model);

// prompt or segment, as --routing says; unspecified when empty.
absl::StatusOr<v1::InferenceRouting> ParseRouting(const std::string& name);

// An id unlikely to repeat, for requests without one.
std::string NewRequestId();

void AddCorpusCommands(Program& program);     // submit, jobs, cancel, corpus describe
void AddRunCommands(Program& program);        // train, runs, stop
void AddStatusCommands(Program& program);     // status, resume
void AddEvalCommand(Program& program);        // eval
void AddAnalyzeCommand(Program& program);     // analyze routing
void AddGenerateCommand(Program& program);    // generate
void AddReportCommand(Program& program);      // report
void AddMetricsCommand(Program& program);     // metrics
void AddModelCommands(Program& program);      // model describe
void AddExplainCommand(Program& program);     // explain
void AddExportCommands(Program& program);     // export, import
void AddQuickstartCommand(Program& program);  // quickstart
void AddReproduceCommand(Program& program);   // reproduce
void AddGatherCommand(Program& program);      // gather
void AddDoctorCommand(Program& program);      // doctor
void AddTokenCommand(Program& program);       // token create, list, revoke
void AddHealthCommand(Program& program);      // health

// Commands of groups.
void AddEvalTasks(Program& program, CLI::App* eval);
void AddCorpusDescribe(Program& program, CLI::App* corpus);

}  // namespace braid

#endif  // BRAID_CLI_COMMAND_H_
