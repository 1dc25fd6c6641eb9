// The command "explain".
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/explain_examples.h"
#include "cli/explain_subject.h"
#include "client/data_order.h"
#include "client/terminal/explanation_tables.h"
#include "proto/stated_defaults.h"
#include "rpc/explanation_limits.h"

namespace braid {
namespace {

struct ExplainOptions {
  std::string id, run, document;
  std::optional<int64_t> step, instance;
  std::optional<int64_t> batch, num_steps;
  std::optional<uint64_t> seed;
  int32_t excerpt_bytes = 0;
  bool has_excerpt_bytes = false;

  bool describes_training() const {
    return !run.empty() || batch.has_value() || num_steps.has_value() || seed.has_value();
  }
};

// Sets the order of training that is only planned. A run has its own (CheckOwnOrder).
void ApplySettings(const ExplainOptions& options, DataOrder* order) {
  if (options.batch.has_value()) order->global_batch_size = *options.batch;
  if (options.seed.has_value()) order->seed = *options.seed;
  if (options.num_steps.has_value()) order->num_steps = *options.num_steps;
}

// Refuses options that describe another order than that of the run `options.id`.
absl::Status CheckOwnOrder(const ExplainOptions& options) {
  if (!options.run.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--run: got ", options.run, " with ", options.id,
                     ", expected a job or a dataset; see: braid explain ", options.run));
  }
  const char* const setting = options.batch.has_value()       ? "--global-batch-size"
                              : options.seed.has_value()      ? "--seed"
                              : options.num_steps.has_value() ? "--steps"
                                                              : nullptr;
  if (setting == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(setting, ": cannot be combined with ", options.id,
                   ", which has its own batch size, seed and number of steps; expected a job or a "
                   "dataset"));
}

absl::StatusOr<std::vector<CorpusSubject>> Find(Session& session, PipelineClient& client,
                                                ExplainOptions options) {
  std::string job_id = options.id;
  if (absl::StartsWith(options.id, "run-")) {
    RETURN_IF_ERROR(CheckOwnOrder(options));
    options.run = options.id;
    job_id.clear();
  }
  std::vector<CorpusSubject> subjects;
  if (!options.run.empty()) {
    ASSIGN_OR_RETURN(TrainingClient training, session.Training());
    ASSIGN_OR_RETURN(const v1::Run run, training.GetRun(options.run));
    ASSIGN_OR_RETURN(const std::vector<v1::LossSpike> spikes, SpikesOfRun(training, run));
    ASSIGN_OR_RETURN(subjects, SubjectsOfRun(client, run, spikes));
    if (!job_id.empty()) {
      ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(job_id));
      ASSIGN_OR_RETURN(CorpusSubject subject, SubjectOfJob(job, run, subjects));
      subjects = {std::move(subject)};
    }
  } else {
    CorpusSubject& subject = subjects.emplace_back();
    ASSIGN_OR_RETURN(subject.job, client.GetJob(job_id));
    ASSIGN_OR_RETURN(subject.order, DataOrderOf(subject.job));
    ApplySettings(options, &subject.order);
  }
  return subjects;
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
  if (order.steps_done) json["steps_done"] = *order.steps_done;
  return json;
}

absl::StatusOr<v1::ExplainInstancesResponse> AskInstances(PipelineClient& client,
                                                          const CorpusSubject& subject,
                                                          const std::vector<int64_t>& instances,
                                                          int32_t excerpt_bytes) {
  v1::ExplainInstancesRequest request;
  request.set_job_id(subject.job.id());
  request.mutable_instances()->Add(instances.begin(), instances.end());
  request.set_excerpt_bytes(excerpt_bytes);
  return client.ExplainInstances(request);
}

absl::StatusOr<nlohmann::json> StepJson(PipelineClient& client, const CorpusSubject& subject,
                                        const ExplainOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> instances,
                   InstancesOfStep(subject.order, *options.step));
  ASSIGN_OR_RETURN(const v1::ExplainInstancesResponse response,
                   AskInstances(client, subject, instances, options.excerpt_bytes));
  nlohmann::json json = AsJson(response);
  json["step"] = *options.step;
  json["job"] = subject.job.id();
  json["order"] = AsJson(subject.order);
  if (!subject.order.run.empty()) {
    json["trained_on"] = WasTrainedOn(subject.order, *options.step);
  }
  return json;
}

absl::Status PrintStep(PipelineClient& client, const CorpusSubject& subject,
                       const ExplainOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> instances,
                   InstancesOfStep(subject.order, *options.step));
  ASSIGN_OR_RETURN(const v1::ExplainInstancesResponse response,
                   AskInstances(client, subject, instances, options.excerpt_bytes));
  const DataOrder& order = subject.order;
  std::cout << "step " << *options.step << " of "
            << (order.run.empty() ? "a run on " + subject.job.id() : order.run) << " (batch "
            << order.global_batch_size << ", seed " << order.seed << ")"
            << (order.mixture == nullptr ? "" : ", dataset of " + subject.job.id())
            << NotTrainedOn(order, *options.step) << "\n";
  for (const v1::InstanceExplanation& instance : response.instances()) {
    std::cout << "\n";
    PrintInstance(instance, {}, std::cout);
  }
  return absl::OkStatus();
}

// Shows the step in every dataset; as JSON, a mixture is a list of datasets.
absl::Status ExplainStep(Session& session, PipelineClient& client,
                         const std::vector<CorpusSubject>& subjects,
                         const ExplainOptions& options) {
  nlohmann::json datasets = nlohmann::json::array();
  for (const CorpusSubject& subject : subjects) {
    if (session.json) {
      ASSIGN_OR_RETURN(datasets.emplace_back(), StepJson(client, subject, options));
    } else {
      RETURN_IF_ERROR(PrintStep(client, subject, options));
    }
  }
  if (!session.json) return absl::OkStatus();
  const nlohmann::json mixture = {{"step", *options.step}, {"datasets", datasets}};
  std::cout << (subjects.size() == 1 ? datasets[0] : mixture).dump(1) << std::endl;
  return absl::OkStatus();
}

// Returns the steps that read an instance, when the options describe a training run.
std::vector<int64_t> Steps(const CorpusSubject& subject, int64_t instance,
                           bool describes_training) {
  return describes_training ? StepsOfInstance(subject.order, instance) : std::vector<int64_t>();
}

absl::Status ExplainInstance(Session& session, PipelineClient& client, const CorpusSubject& subject,
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

// Explains a document in one dataset: returns it as JSON if the session asks for that, else prints
// it.
absl::StatusOr<nlohmann::json> ExplainDocumentIn(Session& session, PipelineClient& client,
                                                 const CorpusSubject& subject,
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
    if (subject.order.mixture != nullptr) std::cout << "dataset of " << subject.job.id() << "\n";
    PrintDocument(response, steps, subject.order.run, std::cout);
    std::cout << std::flush;
    return nullptr;
  }
  nlohmann::json json = AsJson(response);
  json["job"] = subject.job.id();
  if (with_steps) json["order"] = AsJson(subject.order);
  // The fate is that of the corpus job; the run may have trained on none of the spans.
  if (!subject.order.run.empty()) {
    json["trained_on"] = std::ranges::any_of(steps, [](const auto& s) { return !s.empty(); });
  }
  for (size_t i = 0; i < steps.size(); ++i) json["spans"][i]["steps"] = steps[i];
  return json;
}

// Explains a document in every dataset that has it; as JSON, a mixture is a list of datasets.
absl::Status ExplainDocument(Session& session, PipelineClient& client,
                             const std::vector<CorpusSubject>& subjects,
                             const ExplainOptions& options, bool with_steps) {
  nlohmann::json datasets = nlohmann::json::array();
  std::vector<std::string> missing;
  for (const CorpusSubject& subject : subjects) {
    if (!session.json && !datasets.empty()) std::cout << "\n";
    const absl::StatusOr<nlohmann::json> answer =
        ExplainDocumentIn(session, client, subject, options, with_steps);
    if (answer.ok()) {
      datasets.push_back(*answer);
    } else if (absl::IsNotFound(answer.status())) {
      missing.push_back(absl::StrCat(subjects.size() == 1 ? "" : subject.job.id() + ": ",
                                     std::string(answer.status().message())));
    } else {
      return answer.status();
    }
  }
  if (datasets.empty()) return absl::NotFoundError(absl::StrJoin(missing, "; "));
  if (!session.json) return absl::OkStatus();
  const nlohmann::json mixture = {{"document", options.document}, {"datasets", datasets}};
  std::cout << (subjects.size() == 1 ? datasets[0] : mixture).dump(1) << std::endl;
  return absl::OkStatus();
}

// Explains a dataset of fine-tuning, which no corpus job has.
absl::Status ExplainSupervised(Session& session, const SupervisedSubject& subject,
                               const ExplainOptions& options) {
  if (options.has_excerpt_bytes) {
    return absl::InvalidArgumentError(
        "--excerpt-bytes: cannot be combined with a dataset of fine-tuning, whose examples are "
        "shown token by token; leave it out");
  }
  const bool with_steps = options.describes_training() || !subject.order.run.empty();
  if (!options.document.empty()) {
    return ExplainPlace(subject, options.document, with_steps, session.json, std::cout);
  }
  if (options.instance.has_value()) {
    return ExplainExamples(subject, *options.instance, with_steps, session.json, std::cout);
  }
  return ExplainStepOfExamples(subject, *options.step, session.json, std::cout);
}

absl::Status Explain(Session& session, const ExplainOptions& options) {
  const int asked = int{options.step.has_value()} + int{options.instance.has_value()} +
                    int{!options.document.empty()};
  if (asked != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "explain: got ", asked, " of --step, --instance and --document, expected exactly one"));
  }
  if (!absl::StartsWith(options.id, "job-")) {
    ASSIGN_OR_RETURN(auto supervised, FindSupervised(session, options.id));
    if (supervised.has_value()) {
      if (!supervised->order.run.empty()) RETURN_IF_ERROR(CheckOwnOrder(options));
      if (!options.run.empty()) {
        ASSIGN_OR_RETURN(const auto run, FindSupervised(session, options.run));
        if (!run.has_value() || run->order.dataset_key != supervised->order.dataset_key) {
          return absl::InvalidArgumentError(absl::StrCat("--run: got ", options.run,
                                                         ", expected a run on ",
                                                         supervised->dataset_dir.string()));
        }
        supervised->order = run->order;
      }
      ApplySettings(options, &supervised->order);
      return ExplainSupervised(session, *supervised, options);
    }
  }
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const std::vector<CorpusSubject> subjects, Find(session, client, options));
  if (options.step.has_value()) return ExplainStep(session, client, subjects, options);
  const bool with_steps = options.describes_training() || absl::StartsWith(options.id, "run-");
  if (options.instance.has_value()) {
    if (subjects.size() == 1) {
      return ExplainInstance(session, client, subjects[0], options, with_steps);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--instance: got an instance of a mixture of ", subjects.size(),
        " datasets, expected one dataset; name its job: braid explain ", subjects[0].job.id(),
        " --run ", subjects[0].order.run, " --instance ", *options.instance));
  }
  return ExplainDocument(session, client, subjects, options, with_steps);
}

}  // namespace

void AddExplainCommand(CommandLine& program) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = program.app.add_subcommand(
      "explain", "Trace documents to training steps and instances, and back");
  command
      ->add_option("id", options->id,
                   "Corpus job, run, or dataset directory prepared by 'braid finetune'")
      ->required();
  command->add_option("--step", options->step, "Show the documents of this training step, from 1")
      ->check(PositiveInt32());
  command
      ->add_option("--instance", options->instance,
                   "Show the documents of this training instance, from 0")
      ->check(IntegerBetween(0, INT64_MAX));
  command->add_option(
      "--document", options->document,
      "Show the instances of this document; FILE:OFFSET for a record without an id");
  CLI::Option* const run = command->add_option(
      "--run", options->run,
      "Run whose batch size, seed and number of steps to use, with a job or a dataset");
  command
      ->add_option("--global-batch-size", options->batch,
                   "Sequences per step of a planned run, with a job or a dataset (default: 4)")
      ->check(IntegerBetween(1, kMaxExplainedInstances))
      ->excludes(run);
  command->add_option("--seed", options->seed, "Seed of the planned run (default: 0)")
      ->check(Seed())
      ->excludes(run);
  command
      ->add_option("--steps", options->num_steps,
                   "Number of steps of the planned run (default: one pass)")
      ->check(PositiveInt32())
      ->excludes(run);
  v1::ExplainInstancesRequest defaults;
  FillStatedDefaults(&defaults);
  options->excerpt_bytes = defaults.excerpt_bytes();
  const CLI::Option* const excerpt = command
                                         ->add_option("--excerpt-bytes", options->excerpt_bytes,
                                                      "Bytes of text to show per document")
                                         ->capture_default_str()
                                         ->check(IntegerBetween(0, 1 << 20));
  command->footer(
      "Examples:\n"
      "  braid explain job-000001 --step 100 --run run-000001\n"
      "  braid explain run-000001 --step 100\n"
      "  braid explain job-000001 --step 1 --global-batch-size 32 --seed 7\n"
      "  braid explain job-000001 --instance 0 --excerpt-bytes 40\n"
      "  braid explain run-000001 --document corpus.jsonl:4096 --json\n"
      "  braid explain run-000002 --document alpaca.jsonl:12\n"
      "\n"
      "IN INSTANCE and IN DOCUMENT are token ranges begin:end, excluding the end. COSINE\n"
      "compares a document with its predecessor. For a document that was not trained on, the\n"
      "reason is shown.");
  command->callback([&program, options, excerpt] {
    options->has_excerpt_bytes = excerpt->count() > 0;
    program.action = [&program, options] { return Explain(program.session, *options); };
  });
}

}  // namespace braid
