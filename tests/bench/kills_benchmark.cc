// Measures the cost of faults in a small run: its goodput while its ranks are killed repeatedly or,
// with --rollback, the time that it loses by a loss spike with spikes.policy ROLLBACK.
//
//   braid-bench-kills --seconds 300 --every 60
//   braid-bench-kills --rollback
//
// The spike is a batch of random tokens in a step that is a multiple of checkpoint.every_steps.
// Since the checkpoint of that step is not yet written, the rollback loses a whole interval, the
// most that it can. The same run without that batch is the comparison. The bar is one interval plus
// 5 s; the exit code is 1 if it is missed.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/run_status.h"
#include "control/supervision/child_program.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "runs/run_spec.h"
#include "runs/stop_request.h"
#include "tests/bench/bars.h"
#include "tests/bench/or_exit.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_data.h"

namespace braid {
namespace {

struct Settings {
  double seconds = 300;
  double every_seconds = 60;
  int64_t checkpoint_steps = 10;
  int ranks = 2;
  bool rollback = false;
  std::string trainer, supervisor, mpirun, json;
};

v1::RunSpec SpecOf(const Settings& settings, const std::filesystem::path& dataset) {
  v1::RunSpec spec;
  spec.set_dataset_dir(dataset.string());
  spec.mutable_model()->set_num_layers(4);
  spec.mutable_model()->set_d_model(128);
  spec.mutable_model()->set_num_heads(4);
  spec.mutable_model()->set_d_ff(256);
  spec.mutable_model()->mutable_routing()->set_num_experts(4);
  spec.mutable_model()->mutable_routing()->set_segment_length(64);
  spec.mutable_batch()->set_global_batch_size(8);
  spec.set_num_steps(1000000);
  spec.mutable_upcycling()->set_dense_fraction(0);
  spec.mutable_checkpoint()->set_every_steps(settings.checkpoint_steps);
  spec.set_world_size(settings.ranks);
  spec.set_threads_per_rank(1);
  return OrExit(ResolveRunSpec(spec));
}

nlohmann::json LaunchOf(const Settings& settings, const RunDirectory& run) {
  return {{"arguments",
           {settings.mpirun, "--bind-to", "none", "--oversubscribe", "-x", kNonceVariable, "-n",
            std::to_string(settings.ranks), settings.trainer, "train", run.root().string()}},
          {"variables",
           {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
            {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
            {"OMP_NUM_THREADS", "1"},
            {"OPENBLAS_NUM_THREADS", "1"}}}};
}

v1::Run Describe(const RunDirectory& run) {
  return DescribeRun({"run", run.root(), UnixTime()}, UnixTime());
}

// Kills the ranks in turn at regular intervals until the time is over. Returns the number of kills.
int KillRanks(const Settings& settings, const RunDirectory& run) {
  const double begin = UnixTime();
  int kills = 0;
  for (double next = begin + settings.every_seconds; UnixTime() < begin + settings.seconds;) {
    poll(nullptr, 0, 100);
    if (UnixTime() < next) continue;
    next += settings.every_seconds;
    const v1::Run now = Describe(run);
    const int64_t pid = now.heartbeats(kills % settings.ranks).pid();
    if (kill(static_cast<pid_t>(pid), SIGKILL) == 0) ++kills;
    std::cout << "step " << now.latest().step() << ", effective " << now.effective_training_time()
              << ": killed a rank" << std::endl;
  }
  return kills;
}

// Starts the supervisor of a run with `spec` in a new directory.
ChildProgram StartSupervisor(const Settings& settings, const v1::RunSpec& spec,
                             const RunDirectory& run) {
  OrExit(run.WriteSpec(spec));
  std::ofstream(run.launch()) << LaunchOf(settings, run).dump();
  ChildProgram child =
      OrExit(ChildProgram::Fork({.program = settings.supervisor,
                                 .arguments = {settings.supervisor, run.root().string()},
                                 .environment = TrainerEnvironment(),
                                 .new_session = true}));
  OrExit(child.Execute());
  return child;
}

nlohmann::json MeasureKills(const Settings& settings) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset, {.num_instances = 400, .sequence_length = 256, .vocab_size = 512});
  const RunDirectory run(NewDirectory("run"));
  const ChildProgram child = StartSupervisor(settings, SpecOf(settings, dataset), run);
  const int kills = KillRanks(settings, run);
  const v1::Run end = Describe(run);
  kill(child.pid(), SIGTERM);
  waitpid(child.pid(), nullptr, 0);
  return {{"seconds", settings.seconds},
          {"kills", kills},
          {"attempts", end.attempts()},
          {"steps", end.latest().step()},
          {"step_seconds", end.latest().step_seconds()},
          {"effective_training_time", end.effective_training_time()}};
}

constexpr int64_t kRollbackSteps = 240, kRollbackInterval = 40, kSpikeStep = 160;
constexpr double kMaxRunSeconds = 55;

TinyData RollbackData() {
  return {.num_instances = 2000, .sequence_length = 256, .vocab_size = 64};
}

v1::RunSpec RollbackSpec(const Settings& settings, const TinyData& data) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset, data);
  v1::RunSpec spec = SpecOf(settings, dataset);
  spec.mutable_batch()->set_global_batch_size(2 * settings.ranks);
  spec.mutable_batch()->clear_micro_batch_size();
  spec.set_num_steps(kRollbackSteps);
  spec.mutable_checkpoint()->set_every_steps(kRollbackInterval);
  spec.mutable_optimizer()->set_learning_rate(4e-3);
  spec.mutable_spikes()->set_policy(v1::ROLLBACK);
  // Above the z-scores of ordinary steps, below that of a batch of random tokens.
  spec.mutable_spikes()->set_threshold(40);
  return OrExit(ResolveRunSpec(spec));
}

struct CompleteRun {
  double seconds = 0;
  std::vector<v1::StepMetrics> steps;
  std::vector<v1::LossSpike> spikes;
};

CompleteRun TrainToEnd(const Settings& settings, const v1::RunSpec& spec) {
  const RunDirectory run(NewDirectory("run"));
  const double begin = UnixTime();
  const ChildProgram child = StartSupervisor(settings, spec, run);
  while (waitpid(child.pid(), nullptr, WNOHANG) == 0) {
    poll(nullptr, 0, 20);
    if (UnixTime() < begin + kMaxRunSeconds) continue;
    kill(child.pid(), SIGTERM);
    waitpid(child.pid(), nullptr, 0);
    OrExit(absl::DeadlineExceededError(absl::StrCat("the run of ", kRollbackSteps,
                                                    " steps took more than ", kMaxRunSeconds,
                                                    " s; is the machine busy?")));
  }
  CompleteRun result;
  result.seconds = UnixTime() - begin;
  result.steps = OrExit(run.ReadMetrics(0));
  if (Describe(run).attempts() != 1 || std::ssize(result.steps) != kRollbackSteps) {
    OrExit(absl::InternalError(absl::StrCat("the run ended after step ", result.steps.size(),
                                            " of ", kRollbackSteps, ": ", Describe(run).error())));
  }
  for (const v1::StepMetrics& m : result.steps) {
    if (m.has_spike()) result.spikes.push_back(m.spike());
  }
  return result;
}

nlohmann::json MeasureRollback(const Settings& settings) {
  TinyData data = RollbackData();
  const v1::RunSpec plain = RollbackSpec(settings, data);
  // The order of the instances does not depend on their content.
  const TrainingData order = OrExit(TrainingData::Open(plain, /*verify=*/false));
  data.random_instances = OrExit(order.Load(kSpikeStep - 1, 0, 1)).instances;
  const CompleteRun without = TrainToEnd(settings, plain),
                    with = TrainToEnd(settings, RollbackSpec(settings, data));
  if (!without.spikes.empty() || with.spikes.size() != 1 || with.spikes[0].step() != kSpikeStep) {
    OrExit(absl::InternalError(absl::StrCat("got ", without.spikes.size(), " and ",
                                            with.spikes.size(), " loss spikes, expected none and ",
                                            "one in step ", kSpikeStep)));
  }
  std::vector<double> seconds;
  for (const v1::StepMetrics& m : without.steps) seconds.push_back(m.step_seconds());
  std::ranges::nth_element(seconds, seconds.begin() + seconds.size() / 2);
  const double step_seconds = seconds[seconds.size() / 2];
  const v1::LossSpike& spike = with.spikes[0];
  const auto lost = static_cast<double>(spike.step() - spike.first_skipped_step() + 1);
  const double cost = with.seconds - without.seconds + lost * step_seconds;
  return {{"seconds_without_spike", without.seconds},
          {"seconds_with_rollback", with.seconds},
          {"step_seconds", step_seconds},
          {"lost_steps", lost},
          {"rollback_seconds", with.steps[kSpikeStep - 1].step_seconds() - step_seconds},
          {"bars",
           {{"rollback_cost_seconds",
             AtMost(cost, static_cast<double>(kRollbackInterval) * step_seconds + 5)}}}};
}

int Run(const Settings& settings) {
  const nlohmann::json result =
      settings.rollback ? MeasureRollback(settings) : MeasureKills(settings);
  std::cout << result.dump(2) << std::endl;
  if (!settings.json.empty()) std::ofstream(settings.json) << result.dump(2) << "\n";
  return ExitCodeOf(result.value("bars", nlohmann::json::object()));
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Settings settings;
  CLI::App app("Kill ranks of a small run repeatedly, or roll it back, and print the cost");
  const std::string bin = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  settings.trainer = bin + "/braid-trainer";
  settings.supervisor = bin + "/braid-supervisor";
  settings.mpirun = braid::FindProgram("mpirun").value_or("mpirun");
  app.add_option("--seconds", settings.seconds, "Duration in seconds")->capture_default_str();
  app.add_option("--every", settings.every_seconds, "Seconds between kills")->capture_default_str();
  app.add_option("--checkpoint-steps", settings.checkpoint_steps)->capture_default_str();
  app.add_option("--ranks", settings.ranks)->capture_default_str();
  app.add_flag("--rollback", settings.rollback, "Measure a rollback after a loss spike instead");
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(settings);
}
