#include "control/launch/slurm_script.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runs/launch_config.h"

namespace braid {
namespace {

// BINPRM_BUF_SIZE of Linux, minus "#!", the space and the end of the line.
constexpr size_t kMaxFirstLineBytes = 250;

class Options {
 public:
  void Add(const std::string& name, const std::string& value) {
    absl::StrAppend(&lines_, "#SBATCH --", name, value.empty() ? "" : "=", value, "\n");
  }
  void AddGiven(const std::string& name, const std::string& value) {
    if (!value.empty()) Add(name, value);
  }
  void AddGiven(const std::string& name, int32_t value) {
    if (value > 0) Add(name, absl::StrCat(value));
  }
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
};

}  // namespace

absl::StatusOr<std::string> SlurmScript(const v1::RunSpec& spec,
                                        const std::filesystem::path& supervisor,
                                        const std::filesystem::path& run_dir,
                                        const std::string& job_name) {
  RETURN_IF_ERROR(CheckPlainPath("braid-supervisor's path", supervisor.string()));
  RETURN_IF_ERROR(CheckPlainPath("run directory", run_dir.string()));
  const std::string command = absl::StrCat(supervisor.string(), " ", run_dir.string());
  if (command.size() > kMaxFirstLineBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        command, ": got ", command.size(), " bytes, expected at most ", kMaxFirstLineBytes,
        " for a script's first line; use a --home with a shorter path"));
  }
  const v1::SlurmConfig& slurm = spec.launch().slurm();
  Options options;
  options.Add("job-name", job_name);
  options.Add("ntasks", absl::StrCat(spec.world_size()));
  options.Add("cpus-per-task", absl::StrCat(spec.threads_per_rank()));
  // A rank is bound to as many cores as it has threads, so no two ranks share a core.
  options.Add("hint", "nomultithread");
  options.AddGiven("nodes", slurm.nodes());
  options.AddGiven("gpus-per-node", slurm.gpus_per_node());
  options.AddGiven("time", slurm.time_limit_minutes());
  options.AddGiven("partition", slurm.partition());
  options.AddGiven("account", slurm.account());
  options.AddGiven("qos", slurm.qos());
  // USR1 announces the time limit. TERM is what Slurm sends when it ends the job for any cause.
  // With "B:" only the batch script, which is the supervisor, receives USR1.
  options.Add("signal", absl::StrCat("B:USR1@", kSlurmWarningSeconds));
  // After a node failure the job is queued again, and the run continues from its newest checkpoint.
  options.Add("requeue", "");
  options.Add("chdir", run_dir.string());
  options.Add("output", (run_dir / "supervisor.log").string());
  // By default Slurm truncates the file when it starts a job again.
  options.Add("open-mode", "append");
  return absl::StrCat("#!", command, "\n", options.lines());
}

}  // namespace braid
