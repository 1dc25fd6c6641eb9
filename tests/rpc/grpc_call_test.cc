#include "rpc/grpc_call.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "braid/v1/pipeline.grpc.pb.h"

namespace braid {
namespace grpc_call_test {

using Stub = v1::PipelineService::Stub;

// A service whose first watch ends as if the server had become unavailable, after `silence` without
// an event; from the `returns_at`th on, a watch has one event and ends.
class RestartedService final : public v1::PipelineService::Service {
 public:
  RestartedService(std::chrono::milliseconds silence, int returns_at)
      : silence_(silence), returns_at_(returns_at) {}

  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    const int call = ++num_calls_;
    if (call == 1) std::this_thread::sleep_for(silence_);
    if (call < returns_at_) return {grpc::StatusCode::UNAVAILABLE, "shutting down"};
    v1::JobEvent event;
    event.set_number(request->after_event() + 1);
    writer->Write(event);
    return grpc::Status::OK;
  }
  int num_calls() const { return num_calls_; }

 private:
  const std::chrono::milliseconds silence_;
  const int returns_at_;
  std::atomic<int> num_calls_{0};
};

absl::Status Watch(RestartedService* service, std::chrono::milliseconds reconnect_for,
                   std::vector<int64_t>* numbers) {
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  const auto stub = v1::PipelineService::NewStub(channel);
  const absl::Status ended = WatchEvents<v1::JobEvent>(
      *channel, *stub, &Stub::WatchJob, WithId<v1::WatchJobRequest>("job-000001"),
      std::function<bool(const v1::JobEvent&)>([&](const v1::JobEvent& event) {
        numbers->push_back(event.number());
        return true;
      }),
      reconnect_for);
  server->Shutdown();
  return ended;
}

TEST(WatchEventsTest, ReconnectsAfterALongSilence) {
  RestartedService service(std::chrono::milliseconds(1500), 3);
  std::vector<int64_t> numbers;
  const absl::Status ended = Watch(&service, std::chrono::milliseconds(1000), &numbers);
  EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(numbers, std::vector<int64_t>({1}));
  EXPECT_EQ(service.num_calls(), 3);
}

TEST(WatchEventsTest, FailsWhenTheServerStaysUnavailable) {
  RestartedService service(std::chrono::milliseconds(0), 1000);
  std::vector<int64_t> numbers;
  EXPECT_TRUE(absl::IsUnavailable(Watch(&service, std::chrono::milliseconds(1000), &numbers)));
  EXPECT_GE(service.num_calls(), 3);
}

}  // namespace grpc_call_test
}  // namespace braid
