// train, runs, stop
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/launch_options.h"
#include "client/follow.h"
#include "client/terminal/tables.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct TrainOptions {
  std::string data, preset, init_from, name, request_id;
  int32_t experts = 0, segment_length = 0, batch = 0, ranks = 0, threads = 0;
  int64_t steps = 0;
  double learning_rate = 0;
  uint64_t seed = 0;
  bool wait = false;
  LaunchOptions launch;
  ConfigOptions config;
};

// A job id stands for the dataset it made; anything else is a directory.
absl::StatusOr<std::string> DatasetDirectory(Session& session, const std::string& data) {
  if (!absl::StartsWith(data, "job-"))
    return std::filesystem::absolute(data).lexically_normal().string();
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(data));
  if (job.state() == v1::JOB_SUCCEEDED) return job.result().dataset_dir();
  return absl::FailedPreconditionError(absl::StrCat(data, " has no dataset (state ",
                                                    v1::JobState_Name(job.state()),
                                                    "); see: braid status ", data));
}

absl::StatusOr<v1::RunSpec> SpecFrom(Session& session, const TrainOptions& options) {
  v1::RunSpec spec;
  RETURN_IF_ERROR(options.config.Apply(&spec));
  if (!options.data.empty()) {
    ASSIGN_OR_RETURN(const std::string directory, DatasetDirectory(session, options.data));
    spec.set_dataset_dir(directory);
  }
  if (!options.name.empty()) spec.set_name(options.name);
  if (!options.init_from.empty()) spec.set_init_from(ModelReference(options.init_from));
  if (!options.preset.empty()) spec.mutable_model()->set_preset(options.preset);
  v1::RoutingConfig* const routing = spec.mutable_model()->mutable_routing();
  if (options.experts > 0) routing->set_num_experts(options.experts);
  if (options.segment_length > 0) routing->set_segment_length(options.segment_length);
  if (options.steps > 0) spec.set_num_steps(options.steps);
  if (options.batch > 0) spec.mutable_batch()->set_global_batch_size(options.batch);
  if (options.learning_rate > 0) {
    spec.mutable_optimizer()->set_learning_rate(options.learning_rate);
  }
  if (options.ranks > 0) spec.set_world_size(options.ranks);
  if (options.threads > 0) spec.set_threads_per_rank(options.threads);
  if (options.seed > 0) spec.set_seed(options.seed);
  RETURN_IF_ERROR(options.launch.Apply(spec.mutable_launch()));
  return spec;
}

absl::Status Train(Session& session, const TrainOptions& options) {
  v1::LaunchRunRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), SpecFrom(session, options));
  if (options.launch.print) return PrintLaunch(session.options, request.spec(), std::cout);
  request.set_request_id(options.request_id.empty() ? NewRequestId() : options.request_id);
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  ASSIGN_OR_RETURN(v1::Run run, client.LaunchRun(request));
  if (options.wait) {
    CatchInterrupts();
    std::cerr << run.id() << "  " << run.spec().name() << "  " << run.run_dir() << std::endl;
    ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
    ASSIGN_OR_RETURN(run, FollowRun(client, run.id(), run.id(), board));
    RETURN_IF_ERROR(RunOutcome(run));
  }
  if (session.json) {
    std::cout << ToPrettyJson(run) << std::endl;
  } else if (options.wait) {
    PrintRun(run, std::cout);
  } else {
    std::cout << run.id() << "\nwatch it: braid status " << run.id() << " --watch" << std::endl;
  }
  return absl::OkStatus();
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

// Asks again until the run has ended: an embedded service, which escalates when
// a step takes too long, lives only as long as this command.
absl::StatusOr<v1::Run> StopAndWait(TrainingClient& client, const std::string& id) {
  for (;;) {
    ASSIGN_OR_RETURN(const v1::Run run, client.StopRun(id));
    if (run.state() != v1::RUN_RUNNING && run.state() != v1::RUN_STARTING) return run;
    if (Interrupted()) {
      return absl::CancelledError(
          absl::StrCat("no longer waiting; ", id, " was asked to stop after its step"));
    }
    std::cerr << id << " is finishing its step" << std::endl;
  }
}

absl::Status StopRun(Session& session, const std::string& id) {
  CatchInterrupts();
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  ASSIGN_OR_RETURN(const v1::Run run, StopAndWait(client, id));
  if (session.json) {
    std::cout << ToPrettyJson(run) << std::endl;
  } else if (run.state() == v1::RUN_STOPPED) {
    std::cout << id << " stopped after step " << run.latest().step()
              << "; go on with: braid resume " << id << std::endl;
  } else {
    std::cout << id << " had already ended: " << v1::RunState_Name(run.state()) << std::endl;
  }
  return absl::OkStatus();
}

void AddTrain(Program& program) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = program.app.add_subcommand("train", "Pretrain a model on a corpus job");
  command->add_option("--data", options->data, "Job id (job-000001) or dataset directory");
  command->add_option("--preset", options->preset, "Named model, see: braid model describe --list");
  command->add_option("--init-from", options->init_from,
                      "Run or checkpoint whose weights to start from (default: random)");
  command->add_option("--experts", options->experts, "Experts of a layer that has them (1: dense)")
      ->check(PositiveInt32());
  command->add_option("--segment-length", options->segment_length, "Tokens of a segment")
      ->check(PositiveInt32());
  command->add_option("--steps", options->steps, "Optimiser steps (default: one pass)")
      ->check(PositiveInt64());
  command->add_option("--batch", options->batch, "Sequences of one step over all ranks (4)")
      ->check(PositiveInt32());
  command->add_option("--learning-rate", options->learning_rate, "Peak learning rate (2e-4)")
      ->check(PositiveUpTo(1000));
  command->add_option("--ranks", options->ranks, "MPI ranks (all slots of the hosts, or 1)")
      ->check(PositiveInt32());
  command->add_option("--threads", options->threads, "Threads of each rank")
      ->check(PositiveInt32());
  command->add_option("--seed", options->seed, "Seed of weights and data order (0)")->check(Seed());
  command->add_option("--name", options->name, "Name for people");
  command->add_option("--request-id", options->request_id, "Makes repeating this launch harmless");
  command->add_flag("--wait", options->wait, "Follow the run to its end");
  options->launch.AddTo(command);
  options->config.AddTo(command, "RunSpec");
  command->footer(
      "Examples:\n"
      "  braid train --data job-000001 --preset tiny/8E --learning-rate 6e-3 --wait\n"
      "  braid train --data job-000001 --preset tiny --ranks 2 --threads 1\n"
      "  braid train --data job-000001 --preset 0.3B/8E --hosts node-a:4,node-b:4 --threads 8\n"
      "  braid train --data job-000001 --preset 0.3B/8E --backend slurm --partition long \\\n"
      "      --nodes 4 --ranks 16 --threads 8 --time-limit 1440\n"
      "  braid train --data job-000001 --backend kubernetes --image registry/braid:0.1.0 \\\n"
      "      --volume-claim braid-data --mount-path /data --workers 4 --cpu 8 --memory 32Gi\n"
      "  braid train ... --print-launch        # what would be executed, without doing it\n"
      "  braid train --data DIR --init-from llama-checkpoint --experts 8\n"
      "  braid train --data DIR --config run.textproto --set model.routing.num_experts=16\n"
      "  braid train --data DIR --experts 8 --set model.routing.router=PREFIX\n"
      "  braid train --data DIR --experts 8 --set model.routing.moe_layers=1 \\\n"
      "      --set model.routing.moe_layers=3\n"
      "Routers: DENSE, CAUSAL_SEGMENT (default with experts), PREFIX, EXPERT_CHOICE_SEGMENT,\n"
      "EXPERT_CHOICE_TOKEN.\n"
      "The run has a life of its own: Ctrl-C only stops watching.");
  command->callback([&program, options] {
    program.action = [&program, options] { return Train(program.session, *options); };
  });
}

}  // namespace

void AddRunCommands(Program& program) {
  AddTrain(program);
  CLI::App* runs = program.app.add_subcommand("runs", "List training runs, newest first");
  runs->callback([&program] { program.action = [&program] { return ListRuns(program.session); }; });

  auto id = std::make_shared<std::string>();
  CLI::App* stop = program.app.add_subcommand("stop", "Save a checkpoint and stop a run");
  stop->add_option("id", *id, "Run id, such as run-000001")->required();
  stop->callback([&program, id] {
    program.action = [&program, id] { return StopRun(program.session, *id); };
  });
}

}  // namespace braid
