// Three hosts: one dies, one is cut off, and one has a stopped rank. Each fault is detected and
// named in time, and the run ends with the bits of an undisturbed run.
#include "tests/control/host_network.h"
#include "tests/control/supervised_run.h"

namespace braid {
namespace multi_host_test {

using testing::HasSubstr;

class MultiHostTest : public SupervisedRun {
 protected:
  void SetUp() override {
    if (!network_.problem().empty()) GTEST_SKIP() << network_.problem();
    v1::RunSpec spec = Spec(3);
    std::string hostfile;
    for (int host = 1; host <= 3; ++host) {
      spec.mutable_launch()->add_hosts()->set_host(network_.Address(host));
      hostfile += network_.Address(host) + " slots=1\n";
    }
    spec.mutable_launch()->set_backend(v1::HOSTFILE);
    Prepare(spec, {"--hostfile", (run_.root() / "hostfile").string(), "--mca", "plm_rsh_agent",
                   network_.agent(), "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                   "eth0", "--mca", "oob_tcp_if_include", "eth0"});
    ASSERT_TRUE(WriteFileAtomically(run_.root() / "hostfile", hostfile).ok());
    // mpirun runs on the first host.
    Supervise(network_.On(1));
  }

  // Expects `steps` more steps in the attempt after `incident`.
  void ExpectRestarted(const v1::RunIncident& incident, int64_t steps = 5) {
    EXPECT_GT(incident.resumed_step(), 0);
    ASSERT_TRUE(AttemptReaches(incident.attempt() + 1, incident.step() + steps)) << Story();
    std::cout << "resumed training after " << UnixTime() - incident.time() << " s" << std::endl;
  }

  HostNetwork network_{3, NewDirectory("network")};
};

TEST_F(MultiHostTest, StoppedRankDeadHostAndCutLinkAreNamedAndTheBitsStayTheSame) {
  ASSERT_TRUE(AttemptReaches(1, 20)) << Story();
  const v1::RunIncident stopped =
      IncidentAfter([&] { kill(static_cast<pid_t>(Describe().heartbeats(1).pid()), SIGSTOP); });
  EXPECT_EQ(stopped.kind(), v1::RANK_HUNG);
  ASSERT_EQ(stopped.ranks_size(), 1);
  EXPECT_EQ(stopped.ranks(0).rank(), 1);
  EXPECT_EQ(stopped.ranks(0).host(), "node-2");
  EXPECT_THAT(stopped.cause(), HasSubstr("rank 1 on node-2"));
  ExpectRestarted(stopped);

  const v1::RunIncident dead = IncidentAfter([&] {
    for (const pid_t pid : network_.Processes(3)) kill(pid, SIGKILL);
  });
  ASSERT_EQ(dead.ranks_size(), 1) << dead.cause();
  EXPECT_EQ(dead.ranks(0).rank(), 2);
  EXPECT_EQ(dead.ranks(0).host(), "node-3");
  ExpectRestarted(dead);

  const v1::RunIncident cut = IncidentAfter([&] { network_.SetLink(2, false); });
  network_.SetLink(2, true);
  EXPECT_EQ(cut.kind(), v1::RANK_HUNG);
  ASSERT_EQ(cut.ranks_size(), 1) << cut.cause();
  EXPECT_EQ(cut.ranks(0).rank(), 1);
  EXPECT_EQ(cut.ranks(0).host(), "node-2");
  EXPECT_THAT(cut.cause(), HasSubstr("link of " + network_.Address(2) + " is down"));
  ExpectSameBitsInTheEnd(3);
}

}  // namespace multi_host_test
}  // namespace braid
