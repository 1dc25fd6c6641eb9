#include "control/launch/slurm_script.h"

#include <gmock/gmock.h>

#include "control/launch/slurm_jobs.h"

namespace braid {
namespace slurm_script_test {

using testing::HasSubstr;
using testing::Not;

v1::RunSpec Spec() {
  v1::RunSpec spec;
  spec.set_world_size(4);
  spec.set_threads_per_rank(8);
  spec.mutable_launch()->set_backend(v1::SLURM);
  return spec;
}

TEST(SlurmScriptTest, HasAFirstLineAndOptions) {
  v1::RunSpec spec = Spec();
  v1::SlurmConfig& slurm = *spec.mutable_launch()->mutable_slurm();
  slurm.set_partition("gpu");
  slurm.set_account("lab.nlp");
  slurm.set_qos("long");
  slurm.set_nodes(2);
  slurm.set_gpus_per_node(4);
  slurm.set_time_limit_minutes(600);
  EXPECT_EQ(*SlurmScript(spec, "/opt/bin/braid-supervisor", "/data/runs/run-000001", "braid-x"),
            R"(#!/opt/bin/braid-supervisor /data/runs/run-000001
#SBATCH --job-name=braid-x
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=8
#SBATCH --hint=nomultithread
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --time=600
#SBATCH --partition=gpu
#SBATCH --account=lab.nlp
#SBATCH --qos=long
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --chdir=/data/runs/run-000001
#SBATCH --output=/data/runs/run-000001/supervisor.log
#SBATCH --open-mode=append
)");
}

TEST(SlurmScriptTest, LeavesTheClustersDefaultsAlone) {
  const std::string script = *SlurmScript(Spec(), "/s", "/r/x", "j");
  for (const char* option : {"nodes", "gpus", "time", "partition", "account", "qos"}) {
    EXPECT_THAT(script, Not(HasSubstr(std::string("--") + option)));
  }
}

TEST(SlurmScriptTest, RefusesPathsWithSpecialCharacters) {
  for (const char* path : {"/a b", "/a%j", "/a\n#SBATCH", "/a\"", "/a'", "relative", "/a/../b",
                           "/a//b", "/", "", "/a;b", "/$HOME"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SlurmScript(Spec(), "/s", path, "j").status())) << path;
    EXPECT_TRUE(absl::IsInvalidArgument(SlurmScript(Spec(), path, "/r", "j").status())) << path;
  }
}

TEST(SlurmScriptTest, RefusesAFirstLineThatTheKernelWouldTruncate) {
  const std::string run_dir = "/" + std::string(247, 'r');
  EXPECT_TRUE(SlurmScript(Spec(), "/s", run_dir.substr(0, 247), "j").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(SlurmScript(Spec(), "/s", run_dir, "j").status()));
}

TEST(SlurmJobsTest, ReadsTheAnswerOfSbatch) {
  SchedulerRecord record;
  ASSERT_TRUE(ReadSbatchAnswer({"a plugin says hello", "1234;north"}, &record).ok());
  EXPECT_EQ(record.job, "1234");
  EXPECT_EQ(record.place, "north");
  ASSERT_TRUE(ReadSbatchAnswer({"77 "}, &record).ok());
  EXPECT_EQ(record.job, "77");
  EXPECT_EQ(record.place, "");
  for (const char* bad : {"", "Submitted batch job 5", "-1", "12a", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsUnavailable(ReadSbatchAnswer({bad}, &record))) << bad;
  }
  EXPECT_TRUE(absl::IsUnavailable(ReadSbatchAnswer({}, &record)));
}

TEST(SlurmJobsTest, ReadsTheQueue) {
  const std::optional<SlurmJob> job = ParseSlurmJob("12|PENDING|Resources|braid-run-000001-ab");
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->id, "12");
  EXPECT_EQ(job->reason, "Resources");
  EXPECT_EQ(job->name, "braid-run-000001-ab");
  EXPECT_FALSE(ParseSlurmJob("slurm_load_jobs error: Invalid job id specified"));
  EXPECT_FALSE(ParseSlurmJob("12|PENDING|Resources"));
  EXPECT_FALSE(ParseSlurmJob("x|PENDING|Resources|y"));
}

TEST(SlurmJobsTest, StatesAreQueuedStartedOrEnded) {
  EXPECT_EQ(PhaseOfSlurmState("PENDING"), JobPhase::kQueued);
  EXPECT_EQ(PhaseOfSlurmState("CONFIGURING"), JobPhase::kQueued);
  EXPECT_EQ(PhaseOfSlurmState("RUNNING"), JobPhase::kStarted);
  EXPECT_EQ(PhaseOfSlurmState("COMPLETING"), JobPhase::kStarted);
  for (const char* ended : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                            "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"}) {
    EXPECT_EQ(PhaseOfSlurmState(ended), JobPhase::kEnded) << ended;
  }
}

}  // namespace slurm_script_test
}  // namespace braid
