// The commands "train", "runs" and "stop".
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/field_flags.h"
#include "cli/launch_options.h"
#include "cli/run_launch.h"
#include "cli/training_options.h"
#include "client/terminal/run_view.h"
#include "client/terminal/tables.h"
#include "proto/state_name.h"
#include "rpc/interrupt.h"
#include "runs/run_state.h"

namespace braid {
namespace {

struct TrainOptions {
  std::string data, request_id;
  bool wait = false;
  FieldFlags fields{"braid.v1.RunSpec"};
  TrainingOptions training;
  LaunchOptions launch;
  ConfigOptions config;
};

absl::StatusOr<v1::RunSpec> SpecFrom(Session& session, const TrainOptions& options) {
  v1::RunSpec spec;
  RETURN_IF_ERROR(options.config.Apply(&spec));
  if (!options.data.empty()) {
    ASSIGN_OR_RETURN(const std::string directory, DatasetDirectory(session, options.data));
    spec.set_dataset_dir(directory);
  }
  for (v1::MixtureDataset& entry : *spec.mutable_datasets()) {
    ASSIGN_OR_RETURN(*entry.mutable_dataset(), DatasetDirectory(session, entry.dataset()));
  }
  RETURN_IF_ERROR(options.fields.Apply(&spec));
  RETURN_IF_ERROR(options.training.Apply(&spec));
  RETURN_IF_ERROR(options.launch.Apply(spec.mutable_launch()));
  return spec;
}

absl::Status Train(Session& session, const TrainOptions& options) {
  ASSIGN_OR_RETURN(const v1::RunSpec spec, SpecFrom(session, options));
  if (options.launch.print && !spec.branch_from().empty()) {
    return absl::InvalidArgumentError(
        "--print-launch: cannot be combined with --branch, since a branch takes its settings from "
        "another run when it is launched");
  }
  if (options.launch.print) return PrintLaunch(session, spec, std::cout);
  return LaunchAndFollow(session, spec, options.request_id, options.wait);
}

absl::Status ListRuns(Session& session) {
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  ASSIGN_OR_RETURN(const v1::ListRunsResponse response, client.ListRuns());
  if (session.json) {
    std::cout << ToPrettyJson(response) << std::endl;
  } else {
    PrintRuns(response, std::cout);
  }
  return absl::OkStatus();
}

// Repeats the request until the run ends: a service in this process kills a run whose step takes
// too long, and exits with this command.
absl::StatusOr<v1::Run> StopAndWait(TrainingClient& client, const std::string& id) {
  for (;;) {
    ASSIGN_OR_RETURN(const v1::Run run, client.StopRun(id));
    if (HasEnded(run.state())) return run;
    if (Interrupted()) {
      return absl::CancelledError(
          absl::StrCat("interrupted while waiting; ", id, " stops after its current step"));
    }
    std::cerr << id << ": waiting for the run to end" << std::endl;
  }
}

absl::Status StopRun(Session& session, const std::string& id) {
  if (absl::StartsWith(id, "job-")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id: got the job ", id, ", expected a run; cancel a job with: braid cancel ", id));
  }
  CatchInterrupts();
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  ASSIGN_OR_RETURN(const v1::Run run, StopAndWait(client, id));
  if (session.json) {
    std::cout << ToPrettyJson(run) << std::endl;
  } else if (run.state() == v1::RUN_STOPPED) {
    std::cout << StoppedText(run) << std::endl;
  } else {
    std::cout << id << " had already ended: " << StateName(run.state()) << std::endl;
  }
  return absl::OkStatus();
}

constexpr char kTrainFooter[] =
    "Examples:\n"
    "  braid train --data job-000001 --preset tiny/8E --learning-rate 6e-3 --wait\n"
    "  braid train --data job-000001 --preset tiny --ranks 2 --threads 1\n"
    "  braid train --data job-000001 --preset 0.3B/8E --hosts node-a:4,node-b:4 --threads 8\n"
    "  braid train --data job-000001 --preset 0.3B/8E --backend slurm --partition long \\\n"
    "      --nodes 4 --ranks 16 --threads 8 --time-limit 1440\n"
    "  braid train --data job-000001 --backend kubernetes --image registry/braid:0.1.0 \\\n"
    "      --volume-claim braid-data --mount-path /data --workers 4 --cpu 8 --memory 32Gi\n"
    "  braid train ... --print-launch\n"
    "  braid train --data DIR --init-from llama-checkpoint --experts 8\n"
    "  braid train --data DIR --config run.textproto --set model.routing.num_experts=16\n"
    "  braid train --data DIR --experts 8 --set model.routing.router=PREFIX\n"
    "  braid train --data DIR --experts 8 --set model.routing.moe_layers=1 \\\n"
    "      --set model.routing.moe_layers=3\n"
    "  braid train --data DIR --steps 20000 --schedule wsd --decay 0.2 --validate-every 500\n"
    "  braid train --branch run-000001@12000 --decay 0.1\n"
    "  braid train --config mixture.textproto --on-spike rollback\n"
    "\n"
    "A LENGTH is a share of the run (0.1), steps (500), tokens (1e9tokens) or epochs "
    "(1.5epochs).\n"
    "Routers: DENSE, CAUSAL_SEGMENT (default with experts), PREFIX, EXPERT_CHOICE_SEGMENT,\n"
    "EXPERT_CHOICE_TOKEN, TOKEN_CHOICE.\n"
    "\n"
    "The run continues in the background when this command exits: Ctrl-C only stops watching.\n"
    "Stop a run with 'braid stop'.";

void AddTrain(CommandLine& program) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      program.app.add_subcommand("train", "Train a model on the dataset of a corpus job");
  FieldFlags& fields = options->fields;
  command
      ->add_option("--data", options->data,
                   "Corpus job whose dataset to train on, or a dataset directory [dataset_dir]")
      ->type_name("JOB|DIR");
  fields.Add(command, "--preset", "model.preset");
  fields.Add(command, "--init-from", "init_from")
      ->transform(CLI::Validator(
          [](std::string& model) {
            if (!model.empty()) model = ModelReference(model);
            return std::string();
          },
          ""));
  fields.Add(command, "--experts", "model.routing.num_experts");
  fields.Add(command, "--segment-length", "model.routing.segment_length");
  fields.Add(command, "--attention-mask", "model.attention_mask");
  fields.Add(command, "--steps", "num_steps");
  fields.Add(command, "--batch", "batch.global_batch_size");
  fields.Add(command, "--learning-rate", "optimizer.learning_rate")->check(PositiveUpTo(1000));
  fields.Add(command, "--ranks", "world_size");
  fields.Add(command, "--threads", "threads_per_rank");
  fields.Add(command, "--seed", "seed");
  fields.Add(command, "--name", "name");
  command->add_option("--request-id", options->request_id,
                      "Idempotency key: a repeated request returns the existing run");
  command->add_flag("--wait", options->wait, "Follow the run until it ends");
  options->training.AddTo(command);
  options->launch.AddTo(command);
  options->config.AddTo(command, "RunSpec");
  command->footer(kTrainFooter);
  command->callback([&program, options] {
    program.action = [&program, options] { return Train(program.session, *options); };
  });
}

}  // namespace

void AddRunCommands(CommandLine& program) {
  AddTrain(program);
  CLI::App* runs = program.app.add_subcommand("runs", "List training runs, newest first");
  runs->footer("Example:\n  braid runs --json | jq -r '.runs[]?.id'");
  runs->callback([&program] { program.action = [&program] { return ListRuns(program.session); }; });

  auto id = std::make_shared<std::string>();
  CLI::App* stop = program.app.add_subcommand("stop", "Stop a run after saving a checkpoint");
  stop->add_option("id", *id, "Run id, such as run-000001")->required();
  stop->footer("Example:\n  braid stop run-000001 && braid resume run-000001");
  stop->callback([&program, id] {
    program.action = [&program, id] { return StopRun(program.session, *id); };
  });
}

}  // namespace braid
