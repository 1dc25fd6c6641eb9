// The command "finetune".
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/finetune_data.h"
#include "cli/finetune_options.h"
#include "cli/finetune_preview.h"
#include "cli/pipeline_bench.h"
#include "cli/run_launch.h"
#include "google/protobuf/util/message_differencer.h"
#include "model/config/head_config.h"

namespace braid {
namespace {

// Returns the rate of matrix products of this machine for the threads of a rank, in 1e9 FLOP/s.
double RateOfARank(const v1::RunSpec& resolved) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return MeasureProductGflops() * std::clamp(resolved.threads_per_rank(), 1, cores) / cores;
}

// Returns the share of the positions that have a target.
double TargetShareOf(const FinetuneData& data) {
  const int64_t positions =
      std::ssize(data.plan.training.sequences) * data.settings.sequence_length;
  // A full sequence has one token more than positions.
  return static_cast<double>(std::min(data.plan.counts.num_targets, positions)) /
         static_cast<double>(positions);
}

// Returns the mean number of keys that attention sees from a position, as MeansOf counts
// them in training: those of its example and, with the mask DOCUMENT, of its document.
double VisibleKeysOf(const FinetuneData& data, const v1::ModelConfig& model) {
  const bool documents = model.attention_mask() == v1::DOCUMENT;
  const auto length = static_cast<double>(data.settings.sequence_length);
  double keys = 0;
  for (const std::vector<uint32_t>& sequence : data.plan.training.sequences) {
    double padding = length;
    for (const uint32_t example : sequence) {
      const std::vector<int32_t>& tokens = data.plan.training.examples[example].tokens;
      padding -= static_cast<double>(tokens.size());
      double before = 0;
      for (const int32_t token : tokens) {
        keys += before + 0.5;
        before = documents && token == model.document_end() ? 0 : before + 1;
      }
    }
    // Padding repeats the token that ends documents.
    keys += 0.5 * padding * (documents ? 1 : padding);
  }
  // A full sequence has one token more than positions.
  return std::min(keys / (length * static_cast<double>(data.plan.training.sequences.size())),
                  0.5 * length);
}

// Asks the service for the parameters that are trained, and memory and time of a rank.
absl::StatusOr<v1::DescribeModelResponse> Forecast(Session& session, const v1::RunSpec& resolved,
                                                   const FinetuneData& data) {
  v1::DescribeModelRequest request;
  *request.mutable_model() = resolved.model();
  v1::ForecastRequest* const forecast = request.mutable_forecast();
  forecast->set_world_size(resolved.world_size());
  forecast->set_global_batch_size(resolved.batch().global_batch_size());
  forecast->set_micro_batch_size(resolved.batch().micro_batch_size());
  forecast->set_gflops_per_rank(RateOfARank(resolved));
  *forecast->mutable_finetuning() = resolved.finetuning();
  *forecast->mutable_growth() = resolved.growth();
  forecast->set_num_steps(resolved.num_steps());
  forecast->set_mean_visible_keys(VisibleKeysOf(data, resolved.model()));
  // A label head is small, and its one target an example is not counted.
  if (!data.plan.labels) forecast->set_target_share(TargetShareOf(data));
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  return client.DescribeModel(request);
}

absl::Status DryRun(Session& session, const v1::RunSpec& resolved, const FinetuneData& data) {
  const int64_t num_steps = resolved.num_steps();
  ASSIGN_OR_RETURN(const v1::DescribeModelResponse model, Forecast(session, resolved, data));
  if (session.json) {
    nlohmann::json json = FinetunePlanJson(data, num_steps);
    json["forecast"] = nlohmann::json::parse(ToJson(model.forecast()));
    json["num_parameters"] = model.num_parameters();
    std::cout << json.dump(1) << std::endl;
    return absl::OkStatus();
  }
  PrintFinetunePlan(resolved, data, num_steps, std::cout);
  PrintFinetuneForecast(model.forecast(), model.num_parameters(), num_steps, std::cout);
  PrintEncodedExamples(data, std::cout);
  std::cout << std::flush;
  return absl::OkStatus();
}

// Validates on all held-out examples, once an epoch, unless the options say otherwise.
absl::Status FillFinetuneValidation(const FinetuneData& data, int64_t num_steps,
                                    v1::RunSpec* spec) {
  if (data.plan.validation.examples.empty()) {
    const v1::ValidationConfig& asked = spec->validation();
    if (!asked.has_every() && !asked.has_windows() && asked.patience() == 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--validation: got 0 with settings of validation (--validate-every, --patience), expected "
        "a share above 0, or --validation-data");
  }
  v1::ValidationConfig* const validation = spec->mutable_validation();
  if (!validation->has_windows()) {
    validation->set_windows(std::ssize(data.plan.validation.sequences));
  }
  if (validation->has_every()) return absl::OkStatus();
  v1::RunSpec epoch = *spec;
  epoch.clear_num_steps();
  epoch.mutable_length()->set_epochs(1);
  ASSIGN_OR_RETURN(const int64_t epoch_steps, PlannedSteps(epoch, data));
  validation->mutable_every()->set_steps(std::min(epoch_steps, num_steps));
  return absl::OkStatus();
}

// Returns the settings of the run on the planned data, without its model and its dataset.
absl::StatusOr<v1::RunSpec> SpecOn(const FinetuneData& data, v1::RunSpec spec) {
  if (!data.new_template.empty()) spec.mutable_model()->set_chat_template(data.new_template);
  if (data.plan.labels) {
    v1::LabelHead head;
    head.set_regression(data.plan.labels->regression);
    head.mutable_classes()->Assign(data.plan.labels->classes.begin(),
                                   data.plan.labels->classes.end());
    if (spec.model().has_label_head() &&
        !google::protobuf::util::MessageDifferencer::Equals(spec.model().label_head(), head)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.label_head: got ", LabelsText(spec.model().label_head()), ", expected ",
          LabelsText(head), ", which --label-head finds in the data; leave it unset"));
    }
    *spec.mutable_model()->mutable_label_head() = head;
  }
  ASSIGN_OR_RETURN(const int64_t num_steps, PlannedSteps(spec, data));
  RETURN_IF_ERROR(FillFinetuneValidation(data, num_steps, &spec));
  return spec;
}

absl::Status Finetune(Session& session, FinetuneOptions& options) {
  ASSIGN_OR_RETURN(v1::RunSpec spec, options.Spec());
  options.seed = spec.seed();  // the examples are ordered by it, too
  ASSIGN_OR_RETURN(const FinetuneData data, PlanFinetuneData(session, options));
  ASSIGN_OR_RETURN(spec, SpecOn(data, std::move(spec)));
  // Before anything is stored, so that a refused run leaves nothing behind.
  ASSIGN_OR_RETURN(const v1::RunSpec resolved, ResolveFinetuneSpec(options, spec, data));
  if (options.dry_run) return DryRun(session, resolved, data);
  PrintFinetunePlan(resolved, data, resolved.num_steps(), std::cerr);
  ASSIGN_OR_RETURN(const FinetuneInputs inputs, StoreFinetuneInputs(session, options, data));
  spec.set_init_from(inputs.model);
  spec.set_dataset_dir(inputs.dataset.string());
  if (options.launch.print) return PrintLaunch(session, spec, std::cout);
  return LaunchAndFollow(session, spec, options.request_id, options.wait);
}

}  // namespace

void AddFinetuneCommand(CommandLine& program) {
  auto options = std::make_shared<FinetuneOptions>();
  CLI::App* command = program.app.add_subcommand(
      "finetune", "Fine-tune a model, or adapters for it, on examples of prompts and answers");
  options->AddTo(command);
  command->footer(
      "Examples:\n"
      "  braid finetune base --data alpaca.jsonl --lora r=16,alpha=32 --dry-run\n"
      "  braid finetune run-000001 --task sst2 --data downstream/ \\\n"
      "      --lora r=8,alpha=16,targets=q,v --epochs 5 --wait\n"
      "  braid finetune base --data alpaca.jsonl --lora r=8 --experts 16 --layers=-2\n"
      "  braid finetune base --data chats.jsonl.zst --template llama2 --loss-on last-answer\n"
      "  braid finetune base --data pairs.json --field prompt=question --field answer=reply\n"
      "  braid finetune base --data train.jsonl --validation-data valid.jsonl --patience 3\n"
      "  braid finetune base --task sst2 --data downstream/ --lora r=8 --label-head\n"
      "  braid finetune base --data chats.jsonl --data code.jsonl=2 --data web.jsonl=0.5\n"
      "  braid finetune base --task sst2 --task mawps=2 --data downstream/ --lora r=8\n"
      "\n"
      "Formats: alpaca (instruction, input, output), sharegpt (conversations), messages,\n"
      "prompt (prompt, completion) and text. The dataset is prepared on this machine before the\n"
      "run is launched; the run continues in the background when this command exits.");
  command->callback([&program, options] {
    program.action = [&program, options] { return Finetune(program.session, *options); };
  });
}

}  // namespace braid
