#include "trainer/control/generation_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "tests/trainer/control/control_fixture.h"
#include "trainer/run_directory.h"

namespace braid {
namespace {

class GenerationServiceTest : public ControlFixture {
 protected:
  GenerationServiceTest() {
    const auto run = RunStore::Open(root_ / "home").value()->Create("", "spec", 1).value();
    EXPECT_TRUE(RunDirectory(run.run_dir).WriteSpec(Spec("toy")).ok());
    service_ = MakeGenerationService(Options()).value();
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::GenerationService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  bool HasOpenRequests() const {
    const std::filesystem::path folder = root_ / "home/requests";
    return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder);
  }

  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(GenerationServiceTest, ForwardsGeneratedText) {
  v1::GenerateRequest request;
  request.set_model("run-000001");
  request.set_prompt("hello");
  auto reader = stub_->Generate(&context_, request);
  std::string text;
  v1::GenerateEvent event;
  while (reader->Read(&event)) text += event.text();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(text, "hello world");
  EXPECT_TRUE(event.done());
}

TEST_F(GenerationServiceTest, CancellingEndsTheChild) {
  v1::GenerateRequest request;
  request.set_model("run-000001");
  request.set_prompt("endless");
  auto reader = stub_->Generate(&context_, request);
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_TRUE(HasOpenRequests());
  context_.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return !HasOpenRequests(); }));
}

}  // namespace
}  // namespace braid
