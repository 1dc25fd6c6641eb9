#include "cli/command.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/path_roots.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/user_file.h"
#include "proto/config_text.h"
#include "proto/state_name.h"
#include "runs/model_path.h"

namespace braid {

void ConfigOptions::AddTo(CLI::App* command, const std::string& message_name) {
  command
      ->add_option("--config", file,
                   "Read settings from a file in protobuf text format (" + message_name + ")")
      ->type_name("FILE")
      ->check(NotEmpty("a file"));
  command
      ->add_option("--set", assignments,
                   "Set any field of " + message_name +
                       " by its path (in brackets after options that set it); repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

absl::Status ConfigOptions::Apply(google::protobuf::Message* message) const {
  if (!file.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadUserFile(file));
    RETURN_IF_ERROR(ParseConfig(text, file, message));
  }
  return SetFields(message, assignments);
}

std::string ModelReference(const std::string& model) {
  if (absl::StartsWith(model, "run-")) return model;
  return AbsolutePath(model);
}

absl::StatusOr<std::string> ModelDirectory(Session& session, const std::string& model) {
  if (!absl::StartsWith(model, "run-")) return AbsolutePath(model);
  const WeightsReference reference = SplitReference(model);
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  const absl::StatusOr<v1::Run> run = client.GetRun(reference.model);
  if (run.ok()) return run->run_dir() + model.substr(reference.model.size());
  // As for the services, a run comes before a directory whose name looks like an id.
  if (absl::IsNotFound(run.status()) && std::filesystem::exists(reference.model)) {
    return AbsolutePath(model);
  }
  return run.status();
}

absl::StatusOr<std::string> DatasetDirectory(Session& session, const std::string& data) {
  if (!absl::StartsWith(data, "job-")) return AbsolutePath(data);
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(data));
  if (job.state() == v1::JOB_SUCCEEDED) return job.result().dataset_dir();
  return absl::FailedPreconditionError(absl::StrCat(
      data, " has no dataset (state ", StateName(job.state()), "); see: braid status ", data));
}

std::string NewRequestId() { return RandomId(32); }

absl::StatusOr<v1::InferenceRouting> ParseRouting(const std::string& name) {
  if (name.empty()) return v1::INFERENCE_ROUTING_UNSPECIFIED;
  if (name == "prompt") return v1::PROMPT_ROUTING;
  if (name == "segment") return v1::SEGMENT_ROUTING;
  return absl::InvalidArgumentError(
      absl::StrCat("--routing: got \"", name, "\", expected prompt or segment"));
}

}  // namespace braid
