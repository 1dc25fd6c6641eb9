#include "runs/launch_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <functional>

#include "control/training_service.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace launch_config_test {

using testing::HasSubstr;

v1::RunSpec Spec(const std::string& text) {
  v1::RunSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

v1::RunSpec Resolved(const std::string& text) {
  v1::RunSpec spec = Spec(text);
  const absl::Status resolved = ResolveLaunch(&spec);
  EXPECT_TRUE(resolved.ok()) << resolved;
  return spec;
}

std::string ErrorOf(v1::RunSpec spec) {
  const absl::Status status = ResolveLaunch(&spec);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return status.ok() ? "no error" : std::string(status.message());
}
std::string ErrorOf(const std::string& text) { return ErrorOf(Spec(text)); }

constexpr char kKubernetes[] =
    "launch { backend: KUBERNETES kubernetes { image: 'lab/braid' volume_claim: 'data' "
    "mount_path: '/data' } }";

TEST(ResolveLaunchTest, HostsMeanTheHostfile) {
  EXPECT_EQ(Resolved("").launch().backend(), v1::LOCAL);
  EXPECT_EQ(Resolved("").world_size(), 1);
  const v1::RunSpec spec =
      Resolved("launch { hosts { host: 'a' slots: 2 } hosts { host: '10.0.0.7' } }");
  EXPECT_EQ(spec.launch().backend(), v1::HOSTFILE);
  EXPECT_EQ(spec.launch().hosts(1).slots(), 1);
  EXPECT_EQ(spec.world_size(), 3);
  EXPECT_EQ(RanksPerMachine(spec), 2);
}

TEST(ResolveLaunchTest, NodesAndWorkersHaveOneRankByDefault) {
  EXPECT_EQ(Resolved("launch { backend: SLURM slurm { nodes: 3 } }").world_size(), 3);
  const v1::RunSpec slurm = Resolved("world_size: 8 launch { backend: SLURM slurm { nodes: 3 } }");
  EXPECT_EQ(RanksPerMachine(slurm), 3);
  v1::RunSpec spec = Spec(kKubernetes);
  spec.set_world_size(6);
  ASSERT_TRUE(ResolveLaunch(&spec).ok());
  EXPECT_EQ(spec.launch().kubernetes().workers(), 6);
  EXPECT_EQ(spec.launch().kubernetes().namespace_(), "default");
}

TEST(ResolveLaunchTest, ResolvingTwiceChangesNothing) {
  for (const char* text :
       {"", "launch { hosts { host: 'a' } }", "launch { backend: SLURM }", kKubernetes}) {
    v1::RunSpec once = Resolved(text), twice = once;
    ASSERT_TRUE(ResolveLaunch(&twice).ok());
    EXPECT_EQ(once.SerializeAsString(), twice.SerializeAsString());
  }
}

TEST(ResolveLaunchTest, ErrorsNameFieldValueAndExpectation) {
  EXPECT_EQ(ErrorOf("world_size: 4 launch { hosts { host: 'a' slots: 3 } }"),
            "world_size: got 4, expected at most the slots of launch.hosts, 3");
  EXPECT_EQ(ErrorOf("launch { hosts { host: 'a' slots: -1 } }"),
            "launch.hosts[0].slots: got -1, expected 1 to 1048576");
  EXPECT_THAT(ErrorOf("launch { hosts { host: 'a' } hosts { host: 'a' } }"),
              HasSubstr("each host once"));
  EXPECT_THAT(ErrorOf("launch { backend: HOSTFILE }"), HasSubstr("at least one"));
  EXPECT_THAT(ErrorOf("launch { backend: SLURM hosts { host: 'a' } }"),
              HasSubstr("launch.hosts: got 1 hosts, expected nothing with backend SLURM"));
  EXPECT_THAT(ErrorOf("launch { slurm { nodes: 1 } }"), HasSubstr("launch.slurm"));
  EXPECT_THAT(ErrorOf("launch { backend: SLURM kubernetes { } }"), HasSubstr("launch.kubernetes"));
  EXPECT_THAT(ErrorOf("world_size: 2 launch { backend: SLURM slurm { nodes: 3 } }"),
              HasSubstr("launch.slurm.nodes: got 3"));
  EXPECT_THAT(ErrorOf("launch { backend: SLURM slurm { time_limit_minutes: 2 } }"),
              HasSubstr("got 2, expected 5 to"));
  EXPECT_THAT(ErrorOf("launch { backend: KUBERNETES }"),
              HasSubstr("launch.kubernetes.image: got \"\", expected a container image"));
  v1::RunSpec uneven = Spec(kKubernetes);
  uneven.set_world_size(5);
  uneven.mutable_launch()->mutable_kubernetes()->set_workers(2);
  EXPECT_THAT(ErrorOf(uneven), HasSubstr("a divisor of world_size (5)"));
  EXPECT_THAT(ErrorOf("world_size: -1"), HasSubstr("world_size: got -1"));
  EXPECT_THAT(ErrorOf("launch { backend: 9 }"), HasSubstr("LOCAL, HOSTFILE, SLURM or KUBERNETES"));
}

TEST(ResolveLaunchTest, AcceptsNamesInCommonUse) {
  EXPECT_EQ(ErrorOf("launch { hosts { host: 'gpu-01.rack2.example.org' } hosts { host: '10.1.2.3' "
                    "} network_interface: 'eth0.100' }"),
            "no error");
  EXPECT_EQ(ErrorOf("launch { backend: SLURM slurm { partition: 'gpu_a100' account: 'lab.nlp-2' "
                    "qos: 'normal' } }"),
            "no error");
  v1::RunSpec spec = Spec(kKubernetes);
  v1::KubernetesConfig& kubernetes = *spec.mutable_launch()->mutable_kubernetes();
  kubernetes.set_image("registry.example:5000/Lab/braid:0.1.0@sha256:0123456789abcdef");
  kubernetes.set_cpu("0.5");
  kubernetes.set_memory("32Gi");
  EXPECT_EQ(ErrorOf(spec), "no error");
}

// Values that no field may hold: each would be an option, a shell word, a line break or syntax for
// one of the programs that read it.
std::vector<std::string> HostileValues() {
  using namespace std::string_literals;
  return {"-",
          "-x",
          "--help",
          "-oProxyCommand=id",
          " ",
          " a",
          "a ",
          "a b",
          "a\tb",
          "a\nb",
          "a\r\nb",
          "\n",
          "a\n#SBATCH --wrap=id",
          "a\0b"s,
          "\0"s,
          "a\x1b[2J",
          "a\x7f",
          "\x01",
          "$(id)",
          "a$(id)",
          "`id`",
          "${IFS}",
          "$HOME",
          "a;id",
          ";",
          "a&id",
          "a|id",
          "a||id",
          "a>b",
          "a<b",
          "'a'",
          "\"a\"",
          "a'b",
          "a\"b",
          "a\\b",
          "\\",
          "a*",
          "?",
          "[a]",
          "{a,b}",
          "~root",
          "#a",
          "a#b",
          "!a",
          "a!b",
          "(a)",
          "a=b",
          "=",
          "a,b",
          "%j",
          "a%b",
          "^a",
          "h\xc3\xa9",
          "\xff\xfe",
          "\xe2\x80\xae"
          "a",
          "\xef\xbd\x81",
          "a\"}],\"kind\":\"Pod",
          "a: b",
          "../a",
          "..",
          ".",
          "a slots=9",
          std::string(5000, 'a')};
}

v1::RunSpec GoodSpec(const std::string& section) {
  if (section == "hosts") return Spec("launch { backend: HOSTFILE }");
  if (section == "slurm") return Spec("launch { backend: SLURM slurm { } }");
  if (section == "kubernetes") return Spec(kKubernetes);
  return Spec("");
}

// The message of a field, where a repeated one has an element.
google::protobuf::Message* MessageOf(google::protobuf::Message* parent,
                                     const google::protobuf::FieldDescriptor* field) {
  const google::protobuf::Reflection* reflection = parent->GetReflection();
  return field->is_repeated() ? reflection->AddMessage(parent, field)
                              : reflection->MutableMessage(parent, field);
}

// Calls `use` with every text field of LaunchConfig, found by reflection so that none is
// forgotten, set to `value` on a spec that is good otherwise.
int ForEachTextField(const std::string& value,
                     const std::function<void(const std::string&, const v1::RunSpec&)>& use) {
  using google::protobuf::FieldDescriptor;
  int count = 0;
  const auto* launch = v1::LaunchConfig::descriptor();
  for (int i = 0; i < launch->field_count(); ++i) {
    const FieldDescriptor* outer = launch->field(i);
    v1::RunSpec spec = GoodSpec(outer->name());
    if (outer->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      spec.launch().GetReflection()->SetString(spec.mutable_launch(), outer, value);
      use(outer->name(), spec);
      ++count;
    }
    if (outer->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    for (int j = 0; j < outer->message_type()->field_count(); ++j) {
      const FieldDescriptor* inner = outer->message_type()->field(j);
      if (inner->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
      v1::RunSpec changed = spec;
      auto* message = MessageOf(changed.mutable_launch(), outer);
      message->GetReflection()->SetString(message, inner, value);
      use(outer->name() + "." + inner->name(), changed);
      ++count;
    }
  }
  return count;
}

TEST(ResolveLaunchTest, RefusesEveryHostileValueInEveryTextField) {
  const std::vector<std::string> values = HostileValues();
  ASSERT_GE(values.size(), 50u);
  for (const std::string& value : values) {
    const int fields =
        ForEachTextField(value, [&](const std::string& field, const v1::RunSpec& spec) {
          const std::string error = ErrorOf(spec);
          EXPECT_THAT(error, HasSubstr("launch."))
              << field << ": " << testing::PrintToString(value);
          // The value in the message contains neither line breaks nor terminal escapes.
          EXPECT_TRUE(std::all_of(error.begin(), error.end(), [](char c) {
            return c >= ' ' && c < 0x7f;
          })) << testing::PrintToString(error);
          EXPECT_LT(error.size(), 400u);
        });
    EXPECT_EQ(fields, 11);
  }
}

class HostileLaunchTest : public ControlFixture {};

TEST_F(HostileLaunchTest, NothingIsWrittenOrStarted) {
  const auto service = MakeTrainingService(Options()).value();
  auto* training = static_cast<v1::TrainingService::Service*>(service.get());
  for (const std::string& value : HostileValues()) {
    ForEachTextField(value, [&](const std::string& field, const v1::RunSpec& hostile) {
      v1::LaunchRunRequest request;
      *request.mutable_spec() = ControlFixture::Spec("quick");
      *request.mutable_spec()->mutable_launch() = hostile.launch();
      v1::Run run;
      grpc::ServerContext context;
      EXPECT_EQ(training->LaunchRun(&context, &request, &run).error_code(),
                grpc::StatusCode::INVALID_ARGUMENT)
          << field;
    });
  }
  grpc::ServerContext context;
  const v1::ListRunsRequest all;
  v1::ListRunsResponse runs;
  ASSERT_TRUE(training->ListRuns(&context, &all, &runs).ok());
  EXPECT_EQ(runs.runs_size(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(root_ / "home/runs"));
}

TEST(PlainPathTest, IsAbsoluteAndHasNoSyntax) {
  for (const char* good : {"/a", "/data/home/runs/run-000001", "/opt/b+c_d.e-f"}) {
    EXPECT_TRUE(IsPlainPath(good)) << good;
  }
  for (const char* bad : {"", "/", "a", "/a/", "//a", "/a//b", "/a/../b", "/./a", "/a b", "/a\nb",
                          "/a'", "/$a", "/a%j", "/a:b", "/a,b", "/\xc3\xa9"}) {
    EXPECT_FALSE(IsPlainPath(bad)) << bad;
  }
}

}  // namespace launch_config_test
}  // namespace braid
