#include "control/model_child.h"

#include <gmock/gmock.h>

#include "base/atomic_file.h"
#include "braid/v1/analysis.pb.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace model_child_test {

// Answers with the path of the request.
constexpr char kTrainer[] = "#!/bin/sh\nprintf '{\"path\":\"%s\"}\\n' \"$2\"\n";

class ModelChildTest : public ControlFixture {
 protected:
  ModelChildTest() {
    Write(root_ / "trainer", kTrainer);
    std::filesystem::permissions(root_ / "trainer", std::filesystem::perms::owner_all);
  }
  std::string Answer() {
    const ModelChild child((root_ / "trainer").string(), requests_);
    const v1::EvaluateRequest request;
    std::string answer;
    const absl::Status status = child.Run({.command = "evaluate",
                                           .request = request,
                                           .on_event =
                                               [&](std::string_view json) {
                                                 answer = json;
                                                 return absl::OkStatus();
                                               },
                                           .cancelled = [] { return false; }});
    EXPECT_TRUE(status.ok()) << status;
    return answer;
  }

  const std::filesystem::path requests_ = root_ / "home/requests";
};

TEST_F(ModelChildTest, RemovesTheRequestOnceItIsAnswered) {
  EXPECT_THAT(Answer(), testing::HasSubstr(requests_.string()));
  EXPECT_TRUE(std::filesystem::is_empty(requests_));
}

TEST_F(ModelChildTest, RefusesMoreThreadsThanAMachineHas) {
  const ModelChild child((root_ / "trainer").string(), requests_);
  const v1::EvaluateRequest request;
  for (const int num_threads : {-1, 1025, 1000000}) {
    const absl::Status status = child.Run({.command = "evaluate",
                                           .request = request,
                                           .num_threads = num_threads,
                                           .on_event = [](auto) { return absl::OkStatus(); },
                                           .cancelled = [] { return false; }});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  for (const int num_threads : {0, 1, 1024}) EXPECT_TRUE(CheckChildThreads(num_threads).ok());
}

// In containers that share a home, many processes have the same process id.
TEST_F(ModelChildTest, LeavesRequestsOfOtherProcessesWithTheSameIdAlone) {
  const auto path_of = [&](int number) {
    return requests_ / absl::StrCat(getpid(), "-", number, ".textproto");
  };
  for (int number = 1; number <= 100; ++number) Write(path_of(number), "of another container");
  const std::string first = Answer();
  EXPECT_NE(first, Answer());
  for (int number = 1; number <= 100; ++number) {
    EXPECT_EQ(ReadFile(path_of(number)).value_or("removed"), "of another container");
  }
}

}  // namespace model_child_test
}  // namespace braid
