// Measures the goodput of a small run whose ranks are killed repeatedly.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/run_status.h"
#include "control/supervision/child_program.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "runs/run_spec.h"
#include "runs/stop_request.h"
#include "tests/bench/or_exit.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace {

struct Settings {
  double seconds = 300;
  double every_seconds = 60;
  int64_t checkpoint_steps = 10;
  int ranks = 2;
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

int Run(const Settings& settings) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset, {.num_instances = 400, .sequence_length = 256, .vocab_size = 512});
  const RunDirectory run(NewDirectory("run"));
  OrExit(run.WriteSpec(SpecOf(settings, dataset)));
  std::ofstream(run.launch()) << LaunchOf(settings, run).dump();
  auto child = OrExit(ChildProgram::Fork({.program = settings.supervisor,
                                          .arguments = {settings.supervisor, run.root().string()},
                                          .environment = TrainerEnvironment(),
                                          .new_session = true}));
  OrExit(child.Execute());
  const int kills = KillRanks(settings, run);
  const v1::Run end = Describe(run);
  kill(child.pid(), SIGTERM);
  waitpid(child.pid(), nullptr, 0);
  nlohmann::json result = {{"seconds", settings.seconds},
                           {"kills", kills},
                           {"attempts", end.attempts()},
                           {"steps", end.latest().step()},
                           {"step_seconds", end.latest().step_seconds()},
                           {"effective_training_time", end.effective_training_time()}};
  std::cout << result.dump(2) << std::endl;
  if (!settings.json.empty()) std::ofstream(settings.json) << result.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Settings settings;
  CLI::App app("Kill ranks of a small run repeatedly and print its goodput");
  const std::string bin = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  settings.trainer = bin + "/braid-trainer";
  settings.supervisor = bin + "/braid-supervisor";
  settings.mpirun = braid::FindProgram("mpirun").value_or("mpirun");
  app.add_option("--seconds", settings.seconds, "Duration in seconds")->capture_default_str();
  app.add_option("--every", settings.every_seconds, "Seconds between kills")->capture_default_str();
  app.add_option("--checkpoint-steps", settings.checkpoint_steps)->capture_default_str();
  app.add_option("--ranks", settings.ranks)->capture_default_str();
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(settings);
}
