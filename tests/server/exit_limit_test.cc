#include "server/exit_limit.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "braid/v1/pipeline.grpc.pb.h"

namespace braid {
namespace exit_limit_test {

using std::chrono::milliseconds;

// A handler that ignores cancellation.
class SleepingPipeline final : public v1::PipelineService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override {
    asleep = true;
    sleep(60);
    return grpc::Status::OK;
  }
  std::atomic<bool> asleep = false;
};

void ShutDownWhileAHandlerSleeps() {
  SleepingPipeline pipeline;
  grpc::ServerBuilder builder;
  builder.RegisterService(&pipeline);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::thread caller([channel = server->InProcessChannel({})] {
    grpc::ClientContext context;
    v1::Job job;
    v1::PipelineService::NewStub(channel)->GetJob(&context, {}, &job);
  });
  while (!pipeline.asleep) usleep(1000);
  const ExitLimit limit(milliseconds(200), [] { std::fputs("gave up\n", stderr); });
  server->Shutdown(std::chrono::system_clock::now());
  server->Wait();
  caller.join();
}

TEST(ExitLimitDeathTest, ABlockedHandlerDoesNotKeepTheProcessAlive) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EXIT(ShutDownWhileAHandlerSleeps(), testing::ExitedWithCode(kGaveUpExitCode), "gave up");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(ExitLimitTest, DoesNothingIfDestroyedInTime) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const ExitLimit limit(std::chrono::seconds(60), [] { ADD_FAILURE(); });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace exit_limit_test
}  // namespace braid
