// The storage service of a home, called through an in-process channel.
#ifndef BRAID_TESTS_SERVER_RETENTION_RETENTION_FIXTURE_H_
#define BRAID_TESTS_SERVER_RETENTION_RETENTION_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "braid/v1/storage.grpc.pb.h"
#include "rpc/grpc_caller.h"
#include "runs/checkpoint_directory.h"
#include "server/retention/storage_service.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/stored_home.h"

namespace braid {

class RetentionFixture : public testing::Test {
 protected:
  static constexpr double kDay = 86400;

  void SetUp() override {
    service_ = MakeStorageService(
        {.home = home_.path(), .log = [this](const std::string& line) { log_.push_back(line); }});
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::StorageService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
  }
  ~RetentionFixture() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // Calls as `who_`; operators may do everything.
  template <class Request>
  absl::StatusOr<v1::DeletionResponse> Call(
      grpc::Status (v1::StorageService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                       v1::DeletionResponse*),
      const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!who_.empty()) SetCaller(who_, who_ == "olga", &context);
    v1::DeletionResponse response;
    const grpc::Status status = ((*stub_).*method)(&context, request, &response);
    if (status.ok()) return response;
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  absl::StatusOr<v1::DeletionResponse> Delete(const std::vector<std::string>& ids,
                                              bool dry_run = false) {
    v1::DeleteRequest request;
    request.mutable_ids()->Assign(ids.begin(), ids.end());
    request.set_dry_run(dry_run);
    return Call(&v1::StorageService::Stub::Delete, request);
  }
  absl::StatusOr<v1::DeletionResponse> Collect(const v1::CollectGarbageRequest& request) {
    return Call(&v1::StorageService::Stub::CollectGarbage, request);
  }
  static v1::CollectGarbageRequest OlderThan(double days) {
    v1::CollectGarbageRequest request;
    request.set_older_than_seconds(days * kDay);
    return request;
  }
  static std::vector<std::string> Deleted(const v1::DeletionResponse& response) {
    std::vector<std::string> ids;
    for (const v1::Deletion& each : response.deletions()) {
      if (each.kept_because().empty()) ids.push_back(each.id());
    }
    return ids;
  }
  // Returns the steps of the checkpoints of a run, ascending.
  std::vector<int64_t> Checkpoints(const std::string& id) {
    auto steps = CheckpointSteps(home_ / ("runs/" + id + "/checkpoints")).value();
    return {steps.rbegin(), steps.rend()};
  }
  // Nothing was deleted: the home is as it was.
  void ExpectRefused(const std::vector<std::string>& ids, absl::StatusCode code,
                     const std::string& reason) {
    const auto directories = home_.Directories(), stored = home_.Ids();
    EXPECT_FAILS(Delete(ids), code, reason);
    EXPECT_FAILS(Delete(ids, /*dry_run=*/true), code, reason);
    EXPECT_EQ(home_.Directories(), directories);
    EXPECT_EQ(home_.Ids(), stored);
  }

  StoredHome home_;
  std::string who_;
  std::vector<std::string> log_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::StorageService::Stub> stub_;
};

}  // namespace braid

#endif  // BRAID_TESTS_SERVER_RETENTION_RETENTION_FIXTURE_H_
