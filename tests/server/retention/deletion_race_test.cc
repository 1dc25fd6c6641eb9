// Launches on a dataset, and from a run, that is deleted at the same moment: one of them wins, and
// the other is refused cleanly.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "braid/v1/storage.grpc.pb.h"
#include "braid/v1/training.grpc.pb.h"
#include "control/control_service.h"
#include "control/run_store.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "server/retention/storage_service.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/stored_home.h"

namespace braid {
namespace deletion_race_test {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr int kRounds = 300;

class DeletionRaceTest : public testing::Test {
 protected:
  void SetUp() override {
    // Ends at once: what is tested is over when the run is stored.
    const fs::path supervisor = home_ / "supervisor";
    PutFile(supervisor, "#!/bin/sh\nexit 0\n");
    fs::permissions(supervisor, fs::perms::owner_all);
    training_ = MakeTrainingService({.home = home_.path(),
                                     .trainer_binary = supervisor,
                                     .supervisor_binary = supervisor,
                                     .mpirun = supervisor.string()})
                    .value();
    storage_ = MakeStorageService({.home = home_.path()});
    grpc::ServerBuilder builder;
    builder.RegisterService(training_.get());
    builder.RegisterService(storage_.get());
    server_ = builder.BuildAndStart();
    const auto channel = server_->InProcessChannel(grpc::ChannelArguments());
    runs_ = v1::TrainingService::NewStub(channel);
    deletions_ = v1::StorageService::NewStub(channel);
  }
  ~DeletionRaceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    training_ = nullptr;
  }

  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  }
  grpc::Status Launch(const fs::path& dataset, std::string* id) {
    v1::LaunchRunRequest request;
    request.mutable_spec()->set_dataset_dir(dataset.string());
    request.mutable_spec()->mutable_model()->mutable_routing()->set_segment_length(16);
    request.mutable_spec()->set_threads_per_rank(1);
    request.mutable_spec()->mutable_supervision()->set_max_restarts(0);
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::Run run;
    const grpc::Status status = runs_->LaunchRun(&context, request, &run);
    *id = run.id();
    return status;
  }
  grpc::Status Delete(const std::string& id, v1::DeletionResponse* response) {
    v1::DeleteRequest request;
    request.add_ids(id);
    grpc::ClientContext context;
    SetDeadline(&context);
    return deletions_->Delete(&context, request, response);
  }

  StoredHome home_;
  std::unique_ptr<grpc::Service> training_, storage_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::TrainingService::Stub> runs_;
  std::unique_ptr<v1::StorageService::Stub> deletions_;
};

TEST_F(DeletionRaceTest, ALaunchAndTheDeletionOfItsDatasetNeverBothSucceed) {
  std::mt19937 random(11);
  int launched = 0, deleted = 0;
  // Microseconds by which the deletion starts earlier, so that either side often wins.
  int lead = 0;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::string job = home_.AddJob({.outputs = {"p1"}});
    const fs::path dataset = home_.Output("p1");
    const std::chrono::microseconds launch_delay(random() % 3000 + std::max(lead, 0));
    const std::chrono::microseconds delete_delay(random() % 3000 + std::max(-lead, 0));
    std::barrier start(2);
    grpc::Status launch;
    std::string run;
    std::jthread launcher([&] {
      start.arrive_and_wait();
      std::this_thread::sleep_for(launch_delay);
      launch = Launch(dataset, &run);
    });
    start.arrive_and_wait();
    std::this_thread::sleep_for(delete_delay);
    v1::DeletionResponse response;
    const grpc::Status deletion = Delete(job, &response);
    launcher.join();
    const bool gone = deletion.ok() && response.deletions(0).kept_because().empty();
    lead += gone ? -300 : 300;
    EXPECT_EQ(launch.ok(), !gone) << launch.error_message() << " / " << deletion.error_message();
    EXPECT_EQ(fs::exists(dataset / "dataset.json"), launch.ok());
    if (launch.ok()) {
      ++launched;
      EXPECT_TRUE(fs::exists(home_ / ("runs/" + run + "/tokenizer.model")));
      EXPECT_TRUE(deletion.ok() || deletion.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
      // The next round makes the dataset again, under the same name.
      const auto runs = RunStore::Open(home_.path()).value();
      ASSERT_OK(runs->Delete(runs->Get(run).value(), "test", 1));
      std::error_code error;
      fs::remove_all(home_ / ("runs/" + run), error);
      ASSERT_OK(runs->FinishDeletion(run));
      ASSERT_TRUE(Delete(job, &response).ok());
    } else {
      ++deleted;
      EXPECT_EQ(launch.error_code(), grpc::StatusCode::NOT_FOUND) << launch.error_message();
    }
  }
  EXPECT_GE(launched, kRounds / 20);
  EXPECT_GE(deleted, kRounds / 20);
  RecordProperty("launched", launched);
  RecordProperty("deleted", deleted);
}

}  // namespace deletion_race_test
}  // namespace braid
