// The real trainer on one machine: ranks that are stopped, killed, slow, or fenced off.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "runs/stop_request.h"
#include "tests/control/supervised_run.h"
#include "tests/trainer/trainer_program.h"

namespace braid {
namespace supervised_training_test {

using testing::HasSubstr;

class SupervisedTrainingTest : public SupervisedRun {
 protected:
  pid_t PidOf(int rank) const { return static_cast<pid_t>(Describe().heartbeats(rank).pid()); }
};

TEST_F(SupervisedTrainingTest, StoppedAndKilledRanksAreNamedAndTheBitsStayTheSame) {
  Prepare(Spec(2), {"--oversubscribe"});
  Supervise();
  ASSERT_TRUE(AttemptReaches(1, 20)) << Story();
  const v1::RunIncident hung = IncidentAfter([&] { kill(PidOf(1), SIGSTOP); });
  EXPECT_EQ(hung.kind(), v1::RANK_HUNG);
  ASSERT_EQ(hung.ranks_size(), 1);
  EXPECT_EQ(hung.ranks(0).rank(), 1);
  EXPECT_THAT(hung.cause(), HasSubstr("no heartbeat from rank 1 on "));
  EXPECT_GT(hung.resumed_step(), 0);
  const double restart = hung.time();
  ASSERT_TRUE(AttemptReaches(2, hung.step() + 5)) << Story();
  std::cout << "resumed training " << UnixTime() - restart << " s after detection" << std::endl;

  const v1::RunIncident died = IncidentAfter([&] { kill(PidOf(0), SIGKILL); });
  EXPECT_EQ(died.kind(), v1::TRAINER_DIED);
  ASSERT_EQ(died.ranks_size(), 1) << died.cause();
  EXPECT_EQ(died.ranks(0).rank(), 0);
  EXPECT_THAT(died.cause(), HasSubstr("was ended by signal 9"));
  ExpectSameBitsInTheEnd(2);
  EXPECT_GT(Describe().effective_training_time(), 0);
  EXPECT_EQ(Describe().attempts(), 3);
}

// The rank is stopped for half of the time, so it takes twice as long for its own work.
TEST_F(SupervisedTrainingTest, SlowRankIsNamed) {
  v1::RunSpec spec = Spec(2);
  spec.set_num_steps(1000000);
  Prepare(spec, {"--oversubscribe"});
  Supervise();
  ASSERT_TRUE(AttemptReaches(1, 20)) << Story();
  const pid_t slow = PidOf(1);
  std::jthread brake([slow](const std::stop_token& stop) {
    for (bool go = false; !stop.stop_requested() || !go; go = !go) {
      kill(slow, go ? SIGCONT : SIGSTOP);
      poll(nullptr, 0, 12);
    }
    kill(slow, SIGCONT);
  });
  const auto reported = [&] {
    const v1::Run run = Describe();
    for (const v1::SlowRank& rank : run.slow_ranks()) {
      if (rank.rank() == 1 && rank.ratio() >= 1.3 && !rank.host().empty()) return true;
    }
    return false;
  };
  EXPECT_TRUE(Eventually(reported)) << Story();
  brake.request_stop();
  brake.join();
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  EXPECT_TRUE(Eventually([&] { return Describe().state() == v1::RUN_STOPPED; })) << Story();
}

// A rank of an attempt that was given up, as on a host that cannot be reached.
class FencedTrainerTest : public SupervisedRun {
 protected:
  void OwnedBy(const std::string& nonce) {
    ProcessRecord record{IdentifyProcess(getpid()).value(), nonce, UnixTime()};
    ++record.identity.start_time;  // not a live process
    ASSERT_TRUE(WriteProcessRecord(run_.attempt(), record).ok());
    ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  }
  void SetUp() override {
    v1::RunSpec spec = Spec(1);
    spec.set_num_steps(1000000);
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
    OwnedBy("first");
    setenv(kNonceVariable, "first", 1);
  }
  void TearDown() override { unsetenv(kNonceVariable); }
};

TEST_F(FencedTrainerTest, EndsItselfWhenAnotherAttemptOwnsTheRun) {
  TestProgram trainer = Trainer("train", run_.root());
  ASSERT_TRUE(WaitForStep(run_, 3)) << trainer.err();
  EXPECT_EQ(Describe().heartbeats(0).nonce(), "first");
  OwnedBy("second");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(trainer.Wait(), kExitFenced);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_FALSE(run_.ReadExit().has_value()) << "it must not write to the run";
  EXPECT_THAT(trainer.err(), HasSubstr("another attempt"));
  // A rank that is started late exits at once.
  TestProgram late = Trainer("train", run_.root());
  EXPECT_EQ(late.Wait(), kExitFenced);
}

TEST_F(FencedTrainerTest, StopFileStopsATrainerWithACheckpoint) {
  TestProgram trainer = Trainer("train", run_.root());
  ASSERT_TRUE(WaitForStep(run_, 3)) << trainer.err();
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  EXPECT_EQ(trainer.Wait(), kExitStopped) << trainer.err();
  EXPECT_EQ(run_.ReadExit()->outcome, kStopped);
  EXPECT_EQ(run_.ReadExit()->nonce, "first");
}

}  // namespace supervised_training_test
}  // namespace braid
