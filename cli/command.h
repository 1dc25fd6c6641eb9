// The parts that the commands of `braid` share. A command adds itself and its options to the
// parser; when it is chosen, it sets CommandLine::action.
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

// The parser, the connection and the chosen command of one invocation.
struct CommandLine {
  CLI::App app{
      "Train and evaluate segment-routed soft-MoE language models, from a raw corpus to a "
      "trained model."};
  Session session;
  // Runs the chosen command; set while arguments are parsed.
  std::function<absl::Status()> action;
};

// The options --config FILE and --set PATH=VALUE, which set fields of a configuration message.
struct ConfigOptions {
  std::string file;
  std::vector<std::string> assignments;

  // Adds the options to `command`. `message_name` is shown in their help.
  void AddTo(CLI::App* command, const std::string& message_name);
  // Merges the file into `message`, then applies the assignments in order. Errors as ParseConfig
  // and SetField (proto/config_text.h).
  absl::Status Apply(google::protobuf::Message* message) const;
};

// Returns a run id unchanged and any other model as an absolute path, since a server has its own
// working directory.
std::string ModelReference(const std::string& model);

// Returns the directory of the run with this id, and any other model as an absolute path; "@ema" at
// the end of either is kept. NotFound for an unknown id.
absl::StatusOr<std::string> ModelDirectory(Session& session, const std::string& model);

// Returns the dataset of the corpus job with this id, and any other value as an absolute path.
// NotFound for an unknown id, FailedPrecondition for a job that has not succeeded.
absl::StatusOr<std::string> DatasetDirectory(Session& session, const std::string& data);

// Parses the value of --routing, "prompt" or "segment"; unspecified when `name` is empty.
absl::StatusOr<v1::InferenceRouting> ParseRouting(const std::string& name);

// Returns a random idempotency key of 32 hexadecimal digits.
std::string NewRequestId();

void AddCorpusCommands(CommandLine& program);     // submit, jobs, cancel, corpus describe
void AddRunCommands(CommandLine& program);        // train, runs, stop
void AddFinetuneCommand(CommandLine& program);    // finetune
void AddStatusCommands(CommandLine& program);     // status, resume
void AddDeleteCommands(CommandLine& program);     // delete, gc
void AddEvalCommand(CommandLine& program);        // eval
void AddAnalyzeCommand(CommandLine& program);     // analyze
void AddGenerateCommand(CommandLine& program);    // generate
void AddReportCommand(CommandLine& program);      // report
void AddMetricsCommand(CommandLine& program);     // metrics
void AddModelCommands(CommandLine& program);      // model describe
void AddExplainCommand(CommandLine& program);     // explain
void AddExportCommands(CommandLine& program);     // export, import
void AddConvertCommand(CommandLine& program);     // convert
void AddQuickstartCommand(CommandLine& program);  // quickstart
void AddReproduceCommand(CommandLine& program);   // reproduce
void AddDoctorCommand(CommandLine& program);      // doctor
void AddTokenCommand(CommandLine& program);       // token create, list, revoke
void AddHealthCommand(CommandLine& program);      // health
void AddCompletionCommand(CommandLine& program);  // completion (hidden)
void AddManCommand(CommandLine& program);         // man (hidden)

// Subcommands that have files of their own.
void AddEvalTasks(CommandLine& program, CLI::App* eval);
void AddCorpusDescribe(CommandLine& program, CLI::App* corpus);
void AddAnalyzeExperts(CommandLine& program, CLI::App* analyze);
void AddAnalyzeLayers(CommandLine& program, CLI::App* analyze);

}  // namespace braid

#endif  // BRAID_CLI_COMMAND_H_
