#include "cli/launch_options.h"

#include <gmock/gmock.h>

#include "runs/launch_config.h"

namespace braid {
namespace launch_options_test {

using testing::HasSubstr;

std::string Text(const absl::StatusOr<std::vector<v1::HostSlots>>& hosts) {
  if (!hosts.ok()) return std::string(hosts.status().message());
  std::string text;
  for (const v1::HostSlots& host : *hosts) {
    text += host.host() + "=" + std::to_string(host.slots()) + " ";
  }
  return text;
}

v1::LaunchConfig Parse(std::vector<std::string> arguments) {
  CLI::App app;
  LaunchOptions options;
  options.AddTo(&app);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  v1::LaunchConfig launch;
  EXPECT_TRUE(options.Apply(&launch).ok());
  return launch;
}

TEST(HostListTest, ParsesHostsWithAndWithoutRanks) {
  EXPECT_EQ(Text(ParseHostList("a:2,b,10.0.0.7:16")), "a=2 b=0 10.0.0.7=16 ");
  for (const char* bad : {"", "a,", ",a", "a:", "a:0", "a:-1", "a:2x", ":2", "a:99999999999"}) {
    EXPECT_THAT(Text(ParseHostList(bad)), HasSubstr("--hosts: got")) << bad;
  }
}

TEST(HostfileTest, ParsesTheFormatOfMpirun) {
  EXPECT_EQ(Text(ParseHostfile("# cluster\nnode-a slots=4\n\n  node-b\tslots=2 # old\r\nnode-c\n")),
            "node-a=4 node-b=2 node-c=0 ");
  EXPECT_THAT(Text(ParseHostfile("a slots=2\nb max_slots=4\n")), HasSubstr("line 2"));
  for (const char* bad : {"a slots=", "a slots=x", "a 2", "a slots=1 slots=2"}) {
    EXPECT_THAT(Text(ParseHostfile(bad)), HasSubstr("--hostfile, line 1")) << bad;
  }
}

TEST(LaunchOptionsTest, EachOptionSetsItsField) {
  EXPECT_EQ(Parse({}).ByteSizeLong(), 0u);
  const v1::LaunchConfig slurm =
      Parse({"--backend", "slurm", "--partition", "long", "--account", "lab", "--qos", "high",
             "--nodes", "4", "--gpus-per-node", "8", "--time-limit", "600"});
  EXPECT_EQ(slurm.ShortDebugString(),
            "backend: SLURM slurm { partition: \"long\" account: \"lab\" qos: \"high\" nodes: 4 "
            "gpus_per_node: 8 time_limit_minutes: 600 }");
  const v1::LaunchConfig kubernetes = Parse(
      {"--backend", "kubernetes", "--namespace", "n", "--image", "i", "--volume-claim", "c",
       "--mount-path", "/data", "--workers", "2", "--cpu", "8", "--memory", "32Gi", "--gpus", "1"});
  EXPECT_EQ(kubernetes.ShortDebugString(),
            "backend: KUBERNETES kubernetes { namespace: \"n\" image: \"i\" volume_claim: \"c\" "
            "mount_path: \"/data\" workers: 2 cpu: \"8\" memory: \"32Gi\" gpus: 1 }");
  EXPECT_EQ(Parse({"--hosts", "a:2,b", "--interface", "eth0"}).ShortDebugString(),
            "hosts { host: \"a\" slots: 2 } hosts { host: \"b\" } network_interface: \"eth0\"");
}

TEST(LaunchOptionsTest, RejectsUnknownBackendsAndTwoHostLists) {
  EXPECT_THROW(Parse({"--backend", "ssh"}), CLI::ParseError);
  EXPECT_THROW(Parse({"--hosts", "a", "--hostfile", "/f"}), CLI::ParseError);
  EXPECT_THROW(Parse({"--nodes", "0"}), CLI::ParseError);
}

}  // namespace launch_options_test
}  // namespace braid
