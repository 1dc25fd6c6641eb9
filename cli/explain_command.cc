// explain
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/data_order.h"
#include "client/terminal/explanation_tables.h"

namespace braid {
namespace {

struct ExplainOptions {
  std::string id, run, document;
  std::optional<int64_t> step, instance;
  std::optional<int64_t> batch, num_steps;
  std::optional<uint64_t> seed;
  int32_t excerpt_bytes = 160;

  bool describes_training() const {
    return !run.empty() || batch.has_value() || num_steps.has_value() || seed.has_value();
  }
};

// What is asked about: a job, and the data order of the training meant.
struct Subject {
  v1::Job job;
  DataOrder order;
};

bool SameDirectory(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::path(a).lexically_normal() ==
             std::filesystem::path(b).lexically_normal() ||
         std::filesystem::equivalent(a, b, error);
}

absl::StatusOr<v1::Job> JobOfDataset(PipelineClient& client, const v1::Run& run) {
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response, client.ListJobs());
  for (const v1::Job& job : response.jobs()) {
    if (SameDirectory(job.result().dataset_dir(), run.spec().dataset_dir())) return job;
  }
  return absl::NotFoundError(absl::StrCat("no job here made ", run.spec().dataset_dir(),
                                          ", the dataset of ", run.id(), "; see: braid jobs"));
}

// The job asked about, or the one whose dataset the run trains on.
absl::StatusOr<v1::Job> JobOf(PipelineClient& client, const std::string& id,
                              const std::optional<v1::Run>& run) {
  if (id.empty()) return JobOfDataset(client, *run);
  ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(id));
  if (run.has_value() && !SameDirectory(job.result().dataset_dir(), run->spec().dataset_dir())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--run: ", run->id(), " trains on ", run->spec().dataset_dir(),
                     ", expected the dataset of ", id, ", ", job.result().dataset_dir(),
                     "; ask about the run alone: braid explain ", run->id()));
  }
  return job;
}

void TakeFromRun(const v1::Run& run, DataOrder* order) {
  order->run = run.id();
  order->global_batch_size = run.spec().batch().global_batch_size();
  order->seed = run.spec().seed();
  order->num_steps = run.spec().num_steps();
}

absl::StatusOr<Subject> Find(Session& session, PipelineClient& client, ExplainOptions options) {
  std::string job_id = options.id;
  if (absl::StartsWith(options.id, "run-")) {
    options.run = options.id;
    job_id.clear();
  }
  std::optional<v1::Run> run;
  if (!options.run.empty()) {
    ASSIGN_OR_RETURN(TrainingClient training, session.Training());
    ASSIGN_OR_RETURN(run, training.GetRun(options.run));
  }
  Subject subject;
  ASSIGN_OR_RETURN(subject.job, JobOf(client, job_id, run));
  ASSIGN_OR_RETURN(subject.order, DataOrderOf(subject.job));
  if (run.has_value()) TakeFromRun(*run, &subject.order);
  if (options.batch.has_value()) subject.order.global_batch_size = *options.batch;
  if (options.seed.has_value()) subject.order.seed = *options.seed;
  if (options.num_steps.has_value()) subject.order.num_steps = *options.num_steps;
  return subject;
}

nlohmann::json AsJson(const google::protobuf::Message& message) {
  return nlohmann::json::parse(ToJson(message));
}

nlohmann::json AsJson(const DataOrder& order) {
  nlohmann::json json = {{"dataset_key", order.dataset_key},
                         {"global_batch_size", order.global_batch_size},
                         {"seed", order.seed},
                         {"num_steps", NumSteps(order)}};
  if (!order.run.empty()) json["run"] = order.run;
  return json;
}

absl::StatusOr<v1::ExplainInstancesResponse> AskInstances(PipelineClient& client,
                                                          const Subject& subject,
                                                          const std::vector<int64_t>& instances,
                                                          int32_t excerpt_bytes) {
  v1::ExplainInstancesRequest request;
  request.set_job_id(subject.job.id());
  request.mutable_instances()->Add(instances.begin(), instances.end());
  request.set_excerpt_bytes(excerpt_bytes);
  return client.ExplainInstances(request);
}

absl::Status ExplainStep(Session& session, PipelineClient& client, const Subject& subject,
                         const ExplainOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> instances,
                   InstancesOfStep(subject.order, *options.step));
  ASSIGN_OR_RETURN(const v1::ExplainInstancesResponse response,
                   AskInstances(client, subject, instances, options.excerpt_bytes));
  if (session.json) {
    nlohmann::json json = AsJson(response);
    json["step"] = *options.step;
    json["job"] = subject.job.id();
    json["order"] = AsJson(subject.order);
    std::cout << json.dump(1) << std::endl;
    return absl::OkStatus();
  }
  const DataOrder& order = subject.order;
  std::cout << "step " << *options.step << " of "
            << (order.run.empty() ? "a run on " + subject.job.id() : order.run) << " (batch "
            << order.global_batch_size << ", seed " << order.seed << ")\n";
  for (const v1::InstanceExplanation& instance : response.instances()) {
    std::cout << "\n";
    PrintInstance(instance, {}, std::cout);
  }
  return absl::OkStatus();
}

// The steps that see an instance, when the command says of which training.
std::vector<int64_t> Steps(const Subject& subject, int64_t instance, bool describes_training) {
  return describes_training ? StepsOfInstance(subject.order, instance) : std::vector<int64_t>();
}

absl::Status ExplainInstance(Session& session, PipelineClient& client, const Subject& subject,
                             const ExplainOptions& options, bool with_steps) {
  ASSIGN_OR_RETURN(const v1::ExplainInstancesResponse response,
                   AskInstances(client, subject, {*options.instance}, options.excerpt_bytes));
  const std::vector<int64_t> steps = Steps(subject, *options.instance, with_steps);
  if (!session.json) {
    PrintInstance(response.instances(0), steps, std::cout);
    return absl::OkStatus();
  }
  nlohmann::json json = AsJson(response);
  json["job"] = subject.job.id();
  if (with_steps) {
    json["order"] = AsJson(subject.order);
    json["instances"][0]["steps"] = steps;
  }
  std::cout << json.dump(1) << std::endl;
  return absl::OkStatus();
}

absl::Status ExplainDocument(Session& session, PipelineClient& client, const Subject& subject,
                             const ExplainOptions& options, bool with_steps) {
  v1::ExplainDocumentRequest request;
  request.set_job_id(subject.job.id());
  request.set_document(options.document);
  request.set_excerpt_bytes(options.excerpt_bytes);
  ASSIGN_OR_RETURN(const v1::ExplainDocumentResponse response, client.ExplainDocument(request));
  std::vector<std::vector<int64_t>> steps;
  for (const v1::DocumentSpan& span : response.spans()) {
    if (with_steps) steps.push_back(Steps(subject, span.instance(), with_steps));
  }
  if (!session.json) {
    PrintDocument(response, steps, std::cout);
    return absl::OkStatus();
  }
  nlohmann::json json = AsJson(response);
  json["job"] = subject.job.id();
  if (with_steps) json["order"] = AsJson(subject.order);
  for (size_t i = 0; i < steps.size(); ++i) json["spans"][i]["steps"] = steps[i];
  std::cout << json.dump(1) << std::endl;
  return absl::OkStatus();
}

absl::Status Explain(Session& session, ExplainOptions options) {
  const int asked = int{options.step.has_value()} + int{options.instance.has_value()} +
                    int{!options.document.empty()};
  if (asked != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "explain: got ", asked, " of --step, --instance and --document, expected one"));
  }
  if (options.excerpt_bytes == 0) options.excerpt_bytes = -1;  // none, where 0 is the default
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const Subject subject, Find(session, client, options));
  if (options.step.has_value()) return ExplainStep(session, client, subject, options);
  const bool with_steps = options.describes_training() || absl::StartsWith(options.id, "run-");
  if (options.instance.has_value()) {
    return ExplainInstance(session, client, subject, options, with_steps);
  }
  return ExplainDocument(session, client, subject, options, with_steps);
}

}  // namespace

void AddExplainCommand(Program& program) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = program.app.add_subcommand(
      "explain", "Which documents are in a training step or instance, and back");
  command->add_option("id", options->id, "Corpus job, or a run on its dataset")->required();
  command->add_option("--step", options->step, "Step of training, from 1 as in metrics.jsonl")
      ->check(PositiveInt32());
  command->add_option("--instance", options->instance, "Training instance, from 0")
      ->check(IntegerBetween(0, INT64_MAX));
  command->add_option("--document", options->document,
                      "Document id; FILE:OFFSET of a record without one");
  command->add_option("--run", options->run, "Run whose batch size, seed and steps are meant");
  command->add_option("--global-batch-size", options->batch, "Sequences of one step (4)")
      ->check(PositiveInt32());
  command->add_option("--seed", options->seed, "Seed of the run (0)")->check(Seed());
  command->add_option("--steps", options->num_steps, "Steps of the run (one pass)")
      ->check(PositiveInt32());
  command->add_option("--excerpt-bytes", options->excerpt_bytes, "Text shown of each document")
      ->capture_default_str()
      ->check(IntegerBetween(0, 1 << 20));
  command->footer(
      "Examples:\n"
      "  braid explain job-000001 --step 100 --run run-000001\n"
      "  braid explain run-000001 --step 100\n"
      "  braid explain job-000001 --step 1 --global-batch-size 32 --seed 7\n"
      "  braid explain job-000001 --instance 0 --excerpt-bytes 40\n"
      "  braid explain run-000001 --document corpus.jsonl:4096 --json\n"
      "Token ranges are begin:end, without the end. COSINE compares a document with the one\n"
      "before it. A document that was not trained on is shown with the reason.");
  command->callback([&program, options] {
    program.action = [&program, options] { return Explain(program.session, *options); };
  });
}

}  // namespace braid
