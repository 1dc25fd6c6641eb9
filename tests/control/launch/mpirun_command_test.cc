#include "control/launch/mpirun_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "control/supervision/subprocess.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace mpirun_command_test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Key;
using testing::Not;
using testing::Pair;

MpirunSite Site(std::vector<std::string> environment = {}) {
  return {.mpirun = "/usr/bin/mpirun",
          .trainer = "/opt/braid-trainer",
          .remote_agent = "",
          .environment = std::move(environment)};
}

v1::RunSpec TwoRanks(v1::LaunchBackend backend = v1::LOCAL) {
  v1::RunSpec spec;
  spec.set_world_size(2);
  spec.set_threads_per_rank(3);
  spec.mutable_launch()->set_backend(backend);
  return spec;
}

v1::RunSpec OnHosts() {
  v1::RunSpec spec = TwoRanks(v1::HOSTFILE);
  for (const char* name : {"node-a.cluster", "10.0.0.2"}) {
    v1::HostSlots* host = spec.mutable_launch()->add_hosts();
    host->set_host(name);
    host->set_slots(1);
  }
  return spec;
}

// The values of `-x`.
std::vector<std::string> Forwarded(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "-x") names.push_back(arguments[i + 1]);
  }
  return names;
}

TEST(PlanMpirunTest, LocalRanksAreNotBound) {
  EXPECT_THAT(PlanMpirun(Site(), "/home/a b/runs/run-000001", TwoRanks()).arguments,
              ElementsAre("/usr/bin/mpirun", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE",
                          "-n", "2", "-x", "BRAID_RUN_NONCE", "/opt/braid-trainer", "train",
                          "/home/a b/runs/run-000001"));
}

TEST(PlanMpirunTest, HostsComeFromAHostfileAndTheAgentFromTheService) {
  MpirunSite site = Site();
  site.remote_agent = "/usr/local/bin/agent";
  EXPECT_THAT(PlanMpirun(site, "/r", OnHosts()).arguments,
              ElementsAre("/usr/bin/mpirun", "--bind-to", "none", "-n", "2", "--hostfile",
                          "/r/hostfile", "--mca", "orte_keep_fqdn_hostnames", "1", "--mca",
                          "plm_rsh_agent", "/usr/local/bin/agent", "--mca", "btl", "tcp,self,vader",
                          "-x", "OMP_NUM_THREADS", "-x", "OMP_WAIT_POLICY", "-x", "BRAID_RUN_NONCE",
                          "/opt/braid-trainer", "train", "/r"));
  EXPECT_EQ(HostfileText(OnHosts().launch()), "node-a.cluster slots=1\n10.0.0.2 slots=1\n");
}

TEST(PlanMpirunTest, SeriesFiveHasOtherNames) {
  MpirunSite site = Site();
  site.remote_agent = "/usr/local/bin/agent";
  site.series = OpenMpiSeries::k5;
  v1::RunSpec spec = OnHosts();
  spec.mutable_launch()->set_network_interface("eth0");
  EXPECT_THAT(PlanMpirun(site, "/r", spec).arguments,
              ElementsAre("/usr/bin/mpirun", "--bind-to", "none", "-n", "2", "--hostfile",
                          "/r/hostfile", "--prtemca", "prte_keep_fqdn_hostnames", "1", "--prtemca",
                          "plm_ssh_agent", "/usr/local/bin/agent", "--mca", "btl", "tcp,self,sm",
                          "--mca", "btl_tcp_if_include", "eth0", "--prtemca", "prte_if_include",
                          "eth0", "-x", "OMP_NUM_THREADS", "-x", "OMP_WAIT_POLICY", "-x",
                          "BRAID_RUN_NONCE", "/opt/braid-trainer", "train", "/r"));
}

// Slurm assigns cores to each rank, of which mpirun would use only one by default.
TEST(PlanMpirunTest, SlurmBindsARankToAllItsCores) {
  EXPECT_THAT(PlanMpirun(Site(), "/r", TwoRanks(v1::SLURM)).arguments,
              ElementsAre("/usr/bin/mpirun", "--map-by", "slot:PE=3", "-n", "2", "-x",
                          "OMP_NUM_THREADS", "-x", "OMP_WAIT_POLICY", "-x", "BRAID_RUN_NONCE",
                          "/opt/braid-trainer", "train", "/r"));
}

TEST(PlanMpirunTest, PodsHaveTheOperatorsHostfileAndTheirOwnEnvironment) {
  const MpirunCommand command =
      PlanMpirun(Site({"PATH=/bin", "LANG=C"}), "/r", TwoRanks(v1::KUBERNETES));
  EXPECT_THAT(command.arguments, IsSupersetOf({"--hostfile", "/etc/mpi/hostfile"}));
  EXPECT_THAT(command.variables, AllOf(Not(Contains(Key("PATH"))), Not(Contains(Key("LANG")))));
}

TEST(PlanMpirunTest, OverridesTheNumberOfThreads) {
  EXPECT_THAT(PlanMpirun(Site({"OMP_NUM_THREADS=64", "OMP_WAIT_POLICY=ACTIVE", "PATH=/bin"}), "/r",
                         TwoRanks())
                  .variables,
              ElementsAre(Pair("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
                          Pair("OMP_NUM_THREADS", "3"), Pair("OMP_WAIT_POLICY", "PASSIVE"),
                          Pair("PATH", "/bin")));
}

TEST(PlanMpirunTest, AllowsRootOnlyForRoot) {
  const auto variables = [](bool root) {
    MpirunSite site = Site();
    site.as_root = root;
    return PlanMpirun(site, "/r", TwoRanks()).variables;
  };
  EXPECT_THAT(variables(true), Contains(Key("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")));
  EXPECT_THAT(variables(false), Not(Contains(Key("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))));
}

// Values in arguments are visible to all users of the machine.
TEST(PlanMpirunTest, RemoteRanksGetSettingsByNameAlone) {
  const MpirunCommand command = PlanMpirun(Site({"NCCL_DEBUG=INFO", "HOME=/root", "PATH=/bin",
                                                 "OMPI_MCA_pml=ob1", "LD_LIBRARY_PATH=/opt/lib"}),
                                           "/r", OnHosts());
  EXPECT_THAT(Forwarded(command.arguments),
              ElementsAre("LD_LIBRARY_PATH", "NCCL_DEBUG", "OMP_NUM_THREADS", "OMP_WAIT_POLICY",
                          "BRAID_RUN_NONCE"));
  EXPECT_THAT(command.variables, Contains(Pair("PATH", "/bin")));
}

TEST(PlanMpirunTest, SettingsOfTheServicesMachineStayThere) {
  const std::vector<std::string> environment = {"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES=1",
                                                "BRAID_BLAS_CHOSEN=1", "OPENBLAS_CORETYPE=SkylakeX",
                                                "HOSTNAME=here"};
  const MpirunCommand command = PlanMpirun(Site(environment), "/r", OnHosts());
  EXPECT_EQ(command.variables.size(), 3u) << LaunchJson(command, "");
  EXPECT_EQ(PlanMpirun(Site(environment), "/r", TwoRanks()).variables.size(), 8u);
  // A BLAS core that the user set applies to every host.
  EXPECT_THAT(PlanMpirun(Site({"OPENBLAS_CORETYPE=Haswell"}), "/r", OnHosts()).variables,
              Contains(Pair("OPENBLAS_CORETYPE", "Haswell")));
}

TEST(LaunchJsonTest, HoldsArgumentsAndVariables) {
  const nlohmann::json json =
      nlohmann::json::parse(LaunchJson(PlanMpirun(Site({"LANG=\"\n"}), "/r", TwoRanks()), ""));
  EXPECT_EQ(json.at("arguments").at(0), "/usr/bin/mpirun");
  EXPECT_EQ(json.at("variables").at("LANG"), "\"\n");
  EXPECT_EQ(json.at("variables").at("OMP_NUM_THREADS"), "3");
}

TEST(OpenMpiVersionTest, IsParsedFromTheOutputOfMpirun) {
  EXPECT_EQ(*ParseOpenMpiVersion("mpirun (Open MPI) 4.1.4\n\nReport bugs to"), OpenMpiSeries::k4);
  EXPECT_EQ(*ParseOpenMpiVersion("mpirun (Open MPI) 5.0.7\n"), OpenMpiSeries::k5);
  for (const char* other :
       {"", "HYDRA build details: Version: 4.0", "mpirun (Open MPI) 3.1.3", "mpirun (Open MPI) "}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ParseOpenMpiVersion(other).status())) << other;
  }
}

TEST(OpenMpiVersionTest, InstalledVersionIsDetected) {
  if (!FindProgram("mpirun")) GTEST_SKIP() << "Open MPI is not installed";
  EXPECT_TRUE(DetectOpenMpi("mpirun").ok()) << DetectOpenMpi("mpirun").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(DetectOpenMpi("/bin/true").status()));
}

// As scripts around mpirun do that load environment modules.
TEST(OpenMpiVersionTest, IsDetectedWithALongTextAfterIt) {
  const ScratchDirectory scratch;
  const std::filesystem::path script = scratch / "mpirun";
  PutFile(script,
          "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\nyes 'loaded a module' | head -n 9999\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_OK(DetectOpenMpi(script));
}

}  // namespace mpirun_command_test
}  // namespace braid
