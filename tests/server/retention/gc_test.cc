// Deleting by id and by age through the service: what is deleted, what is kept and why, and who
// may.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/directory_use.h"
#include "braid/v1/storage.grpc.pb.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_deletions.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/store/stage_store.h"
#include "rpc/grpc_caller.h"
#include "rpc/storage_client.h"
#include "runs/checkpoint_directory.h"
#include "server/retention/disk_tree.h"
#include "server/retention/storage_service.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/stored_home.h"

namespace braid {
namespace gc_test {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr double kDay = 86400;

class GcTest : public testing::Test {
 protected:
  void SetUp() override {
    service_ = MakeStorageService(
        {.home = home_.path(), .log = [this](const std::string& line) { log_.push_back(line); }});
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::StorageService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
  }
  ~GcTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

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
    return absl::Status(static_cast<StatusCode>(status.error_code()), status.error_message());
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
  void ExpectRefused(const std::vector<std::string>& ids, StatusCode code,
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

TEST_F(GcTest, DeletesARunAndItsJobAndReportsTheSpaceFreed) {
  const std::string job = home_.AddJob();
  const std::string run = home_.AddRun({.dataset = home_.Output("p1")});
  const int64_t bytes = DiskBytes(home_ / "store") + DiskBytes(home_ / "runs");
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Delete({job, run}, /*dry_run=*/true));
  EXPECT_THAT(Deleted(plan), ElementsAre(run, job)) << "the user first";
  EXPECT_THAT(home_.Ids(), ElementsAre(job, run)) << "a dry run deletes nothing";
  EXPECT_THAT(log_, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Delete({job, run}));
  EXPECT_THAT(Deleted(done), ElementsAre(run, job));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_GT(done.freed_bytes(), 2 * 20000 + 2 * 5 * 20000);
  EXPECT_LE(done.freed_bytes(), bytes);
  EXPECT_THAT(home_.Directories(), IsEmpty());
  EXPECT_THAT(home_.Ids(), IsEmpty());
  EXPECT_THAT(log_, ElementsAre(HasSubstr("deleted " + run + " of local for local"),
                                HasSubstr("deleted " + job)));
  EXPECT_FAILS(Delete({job}), StatusCode::kNotFound, job);
}

TEST_F(GcTest, OutputsThatAnotherJobHasStay) {
  const std::string first = home_.AddJob({.outputs = {"i1", "t1", "p1"}});
  home_.AddJob({.outputs = {"i1", "t2", "p2"}});
  ASSERT_OK(Delete({first}));
  EXPECT_TRUE(fs::exists(home_.Output("i1")));
  EXPECT_FALSE(fs::exists(home_.Output("t1")));
  EXPECT_FALSE(fs::exists(home_.Output("p1")));
  EXPECT_TRUE(fs::exists(home_.Output("p2")));
}

TEST_F(GcTest, AFailedJobTakesItsUnfinishedOutputsWithIt) {
  const std::string job = home_.AddJob({.outputs = {"i1", "t1"}, .state = v1::JOB_FAILED});
  fs::rename(home_.Output("t1"), home_.Output("t1").string() + ".tmp");
  ASSERT_OK(Delete({job}));
  EXPECT_THAT(home_.Directories(), IsEmpty());
}

TEST_F(GcTest, KeepsWhatAnotherJobOrRunUses) {
  const std::string job = home_.AddJob({.outputs = {"i1", "t1", "p1"}});
  const std::string run = home_.AddRun({.dataset = home_.Output("p1")});
  ExpectRefused({job}, StatusCode::kFailedPrecondition, run + " uses store/pack-1111");
  // Initialized from a run by id, by path, and from one of its checkpoints.
  const std::vector<std::string> starts = {
      run, (home_ / ("runs/" + run)).string(),
      (home_ / ("runs/" + run + "/checkpoints/step-00000010"))};
  for (const std::string& start : starts) {
    const std::string next = home_.AddRun({.init_from = start, .created = 2000});
    ExpectRefused({run}, StatusCode::kFailedPrecondition, next + " uses runs/" + run);
    ASSERT_OK(Delete({next}));
  }
  // A job that takes the tokenizer of another.
  v1::CorpusSpec spec;
  spec.mutable_tokenizer()->set_model_path((home_.Output("t1") / "tokenizer.model").string());
  const std::string next = home_.AddJob({.outputs = {"p2"}, .spec = spec});
  ASSERT_OK(Delete({run}));
  ExpectRefused({job}, StatusCode::kFailedPrecondition, next + " uses store/tokenize-1111");
  ASSERT_OK(Delete({next, job}));
  EXPECT_THAT(home_.Ids(), IsEmpty());
}

TEST_F(GcTest, ARunThatIsMissingInTheListKeepsItsDataset) {
  const std::string job = home_.AddJob();
  const std::string run = home_.AddRun({.dataset = home_.Output("p1")});
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    fs::remove(home_ / absl::StrCat("runs.sqlite", suffix));
  }
  ExpectRefused({job}, StatusCode::kFailedPrecondition, run + " uses store/pack-1111");
  ExpectRefused({run}, StatusCode::kFailedPrecondition, "not in the list of runs");
}

TEST_F(GcTest, RefusesWhatHasNotEnded) {
  const std::string queued = home_.AddJob({.state = v1::JOB_QUEUED});
  ExpectRefused({queued}, StatusCode::kFailedPrecondition, queued + " is QUEUED; cancel it first");
  ASSERT_OK(JobStore::Open(home_.path()).value()->ClaimNext());
  ExpectRefused({queued}, StatusCode::kFailedPrecondition, queued + " is RUNNING");
  const std::string starting = home_.AddRun({.ended = false, .created = UnixTime()});
  ExpectRefused({starting}, StatusCode::kFailedPrecondition,
                starting + " is STARTING; stop it first");
  // Several ids: all or none.
  const std::string ended = home_.AddRun();
  ExpectRefused({ended, starting}, StatusCode::kFailedPrecondition, starting);
  ExpectRefused({ended, "run-000077"}, StatusCode::kNotFound, "run-000077");
  ExpectRefused({ended, "nonsense"}, StatusCode::kNotFound, "nonsense");
  EXPECT_FAILS(Delete({}), StatusCode::kInvalidArgument, "ids");
}

TEST_F(GcTest, RefusesWhatIsBeingRead) {
  const std::string job = home_.AddJob();
  const std::string run = home_.AddRun();
  {
    // As an evaluation and a served model do (control/model_child.cc, control/model_server.cc).
    const auto model =
        DirectoryUse::Share(home_.path(), home_ / ("runs/" + run + "/checkpoints/step-00000020"));
    ExpectRefused({run}, StatusCode::kFailedPrecondition, run + " is in use");
    // As a job does that reuses an output.
    StageStore store(home_ / "store", {.home = home_.path()});
    const absl::StatusOr<StoredStage> output =
        store.Produce("ingest", std::string(32, '1'),
                      [](StageWriter& writer) { return writer.AddText("rebuilt", "text", 1); });
    ASSERT_OK(output);
    ExpectRefused({job}, StatusCode::kFailedPrecondition, "store/ingest-1111");
    ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse kept, Collect(OlderThan(1)));
    EXPECT_THAT(Deleted(kept), IsEmpty());
    EXPECT_THAT(kept.deletions(), SizeIs(2)) << "reported with their reasons";
  }
  ASSERT_OK(Delete({job, run}));
  EXPECT_THAT(home_.Directories(), IsEmpty());
}

TEST_F(GcTest, OwnersAndOperatorsMayDelete) {
  const std::string job = home_.AddJob({.principal = "ann"});
  const std::string run = home_.AddRun({.principal = "ann"});
  who_ = "bob";
  ExpectRefused({job}, StatusCode::kPermissionDenied, job + " belongs to ann");
  ExpectRefused({run}, StatusCode::kPermissionDenied, run + " belongs to ann");
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse none, Collect(OlderThan(1)));
  EXPECT_THAT(none.deletions(), IsEmpty()) << "collects his own only";
  who_ = "ann";
  ASSERT_OK(Delete({job}));
  who_ = "olga";
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse rest, Collect(OlderThan(1)));
  EXPECT_THAT(Deleted(rest), ElementsAre(run));
  EXPECT_THAT(log_.back(), HasSubstr(run + " of ann for olga"));
}

TEST_F(GcTest, CollectsByAgeAndNumber) {
  const double now = UnixTime();
  std::vector<std::string> runs;
  for (int i = 0; i < 5; ++i) {
    runs.push_back(
        home_.AddRun({.created = now - (50 - i) * kDay, .finished = now - (40 - 10 * i) * kDay}));
  }
  v1::CollectGarbageRequest request = OlderThan(25);
  request.set_keep(4);
  request.set_dry_run(true);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(runs[0]));
  EXPECT_THAT(home_.Ids(), SizeIs(5));
  request.set_dry_run(false);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(runs[0]));
  EXPECT_THAT(Deleted(Collect(OlderThan(25)).value()), ElementsAre(runs[1]));
  request = {};
  request.set_keep(2);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(runs[2]));
  EXPECT_THAT(home_.Ids(), ElementsAre(runs[3], runs[4]));
  EXPECT_FAILS(Collect({}), StatusCode::kInvalidArgument, "keep 0");
  request.set_keep(-1);
  EXPECT_FAILS(Collect(request), StatusCode::kInvalidArgument, "keep -1");
}

TEST_F(GcTest, CollectsWhatUsesAnotherBeforeIt) {
  const std::string job = home_.AddJob();
  const std::string base = home_.AddRun({.dataset = home_.Output("p1"), .created = 1100});
  const std::string tuned = home_.AddRun({.init_from = base, .created = 1200});
  const std::string recent =
      home_.AddRun({.dataset = home_.Output("p1"), .created = 1300, .finished = UnixTime()});
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse first, Collect(OlderThan(30)));
  EXPECT_THAT(Deleted(first), ElementsAre(tuned, base));
  ASSERT_THAT(first.deletions(), SizeIs(3));
  EXPECT_EQ(first.deletions(2).id(), job);
  EXPECT_THAT(first.deletions(2).kept_because(), HasSubstr(recent + " uses store/pack-1111"));
  EXPECT_TRUE(fs::exists(home_.Output("p1")));
}

TEST_F(GcTest, ResultsOfEvaluationsAreKeptUnlessAskedFor) {
  const std::string scored = home_.AddRun(), tested = home_.AddRun(), plain = home_.AddRun();
  PutFile(home_ / ("runs/" + scored + "/evaluation.json"), "{}");
  fs::create_directories(home_ / ("runs/" + tested + "/tasks"));
  PutFile(home_ / ("runs/" + tested + "/tasks/result.json"), "{}");
  EXPECT_THAT(Deleted(Collect(OlderThan(1)).value()), ElementsAre(plain));
  v1::CollectGarbageRequest request = OlderThan(1);
  request.set_include_evaluated(true);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(tested, scored));
}

TEST_F(GcTest, ReducesRunsToTheirNewestGoodCheckpoint) {
  const std::string run = home_.AddRun(), damaged = home_.AddRun(), start = home_.AddRun();
  home_.AddRun({.init_from = start, .created = 1500, .finished = UnixTime()});
  const fs::path last = home_ / ("runs/" + damaged + "/checkpoints/step-00000020");
  PutByte(last / "model.safetensors", 7, 'z');
  v1::CollectGarbageRequest request = OlderThan(1);
  request.set_checkpoints(true);
  request.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Collect(request));
  request.set_dry_run(false);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(request));
  EXPECT_THAT(Deleted(done), testing::UnorderedElementsAre(run, damaged));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_GT(done.freed_bytes(), 2 * 5 * 20000);
  EXPECT_THAT(Checkpoints(run), ElementsAre(20));
  EXPECT_THAT(Checkpoints(damaged), ElementsAre(10)) << "the newest is damaged";
  EXPECT_THAT(Checkpoints(start), SizeIs(2)) << "another run was initialized from it";
  EXPECT_THAT(home_.Ids(), SizeIs(4));
}

TEST_F(GcTest, ReducedRunsKeepTheirBestCheckpointAndTheirBranchPoints) {
  const std::string run =
      home_.AddRun({.checkpoints = {10, 20, 30, 40, 50}, .keep_every_steps = 20, .best_step = 30});
  const std::string best = home_.AddRun({.checkpoints = {10, 20, 30}, .best_step = 10});
  const std::string unfinished =
      home_.AddRun({.checkpoints = {10, 20, 30, 40, 50}, .regular_steps = 20});
  const std::string unknown = home_.AddRun({.checkpoints = {10, 20}});
  PutByte(home_ / ("runs/" + unknown + "/run.textproto"), 40, 'z');
  v1::CollectGarbageRequest request = OlderThan(1);
  request.set_checkpoints(true);
  request.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Collect(request));
  request.set_dry_run(false);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(request));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_THAT(Checkpoints(run), ElementsAre(20, 30, 40, 50)) << "checkpoint.keep_every_steps is 20";
  EXPECT_THAT(Checkpoints(best), ElementsAre(10, 30));
  EXPECT_THAT(Checkpoints(unfinished), ElementsAre(40, 50)) << "a resumed run may roll back";
  EXPECT_THAT(Checkpoints(unknown), SizeIs(2)) << "what to keep is not known";
  for (const v1::Deletion& each : done.deletions()) {
    EXPECT_THAT(each.kept_because(), each.id() == unknown
                                         ? HasSubstr("run.textproto")
                                         : testing::Matcher<std::string>(IsEmpty()));
  }
}

TEST_F(GcTest, CollectsPreparedDataThatNoRunUsesByTheTimeOfItsLastUse) {
  const std::string used = home_.AddPrepared("pack-1", 40),
                    base = home_.AddPrepared("converted-1", 40);
  const std::string old = home_.AddPrepared("pack-2", 40),
                    split = home_.AddPrepared("converted-2", 40);
  const std::string recent = home_.AddPrepared("pack-3", 3);
  const std::string killed = home_.AddPrepared("converted-4.tmp", 40);
  const std::string run = home_.AddRun(
      {.dataset = home_ / used, .init_from = (home_ / base).string(), .finished = UnixTime()});
  v1::CollectGarbageRequest request = OlderThan(30);
  request.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Collect(request));
  EXPECT_THAT(Deleted(plan), testing::UnorderedElementsAre(old, split, "supervised/converted-4"));
  EXPECT_TRUE(home_.Has(old) && home_.Has(split) && home_.Has(killed)) << "a dry run";
  std::vector<std::string> kept;
  for (const v1::Deletion& each : plan.deletions()) {
    if (!each.kept_because().empty()) kept.push_back(each.kept_because());
  }
  EXPECT_THAT(kept, testing::UnorderedElementsAre(HasSubstr(run + " uses " + used),
                                                  HasSubstr(run + " uses " + base)));
  request.set_dry_run(false);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(request));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_GT(done.freed_bytes(), 3 * 20000);
  EXPECT_FALSE(home_.Has(old) || home_.Has(split) || home_.Has(killed));
  EXPECT_TRUE(home_.Has(used) && home_.Has(base) && home_.Has(recent));
  // Nothing uses it once its run is gone. Numbers to keep say nothing about prepared data.
  ASSERT_OK(Delete({run}));
  v1::CollectGarbageRequest newest;
  newest.set_keep(1);
  EXPECT_THAT(Collect(newest)->deletions(), IsEmpty());
  EXPECT_THAT(Deleted(Collect(OlderThan(30)).value()), testing::UnorderedElementsAre(used, base));
}

TEST_F(GcTest, KeepsPreparedDataOfARunThatIsBeingLaunched) {
  const std::string pack = home_.AddPrepared("pack-1", 40),
                    base = home_.AddPrepared("converted-1", 40);
  {
    // As `braid finetune` and a launch do.
    const auto data = DirectoryUse::Share(home_.path(), home_ / pack);
    const auto model = DirectoryUse::Share(home_.path(), home_ / base / "model.safetensors");
    ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse kept, Collect(OlderThan(30)));
    EXPECT_THAT(Deleted(kept), IsEmpty());
    EXPECT_THAT(kept.deletions(0).kept_because(), HasSubstr("is in use"));
  }
  who_ = "ann";
  EXPECT_THAT(Collect(OlderThan(30))->deletions(), IsEmpty()) << "prepared data has no owner";
  who_ = "olga";
  EXPECT_THAT(Deleted(Collect(OlderThan(30)).value()), testing::UnorderedElementsAre(pack, base));
}

TEST_F(GcTest, CompletesAnInterruptedDeletionOfPreparedData) {
  const std::string pack = home_.AddPrepared("pack-1", 40);
  fs::rename(home_ / pack, home_ / (pack + ".deleted"));
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(OlderThan(30)));
  EXPECT_THAT(Deleted(done), ElementsAre(pack));
  EXPECT_FALSE(home_.Has(pack + ".deleted"));
}

TEST_F(GcTest, IdsAndRequestIdsOfDeletedRunsAreNotUsedAgain) {
  const std::string run = home_.AddRun({.request_id = "once"});
  ASSERT_OK(Delete({run}));
  const auto runs = RunStore::Open(home_.path()).value();
  EXPECT_FAILS(runs->Create("once", "spec", 1), StatusCode::kAlreadyExists, run, "was deleted");
  EXPECT_EQ(runs->Create("", "spec", 1)->id, "run-000002");
  EXPECT_FAILS(runs->Get(run), StatusCode::kNotFound, run);
}

TEST_F(GcTest, ADeletedRunFreesItsPlaceInTheQuota) {
  const RunOwner owner = {.principal = "ann", .max_runs = 1};
  const auto runs = RunStore::Open(home_.path()).value();
  const std::string run = home_.AddRun({.principal = "ann"});
  EXPECT_FAILS(runs->Create("", "spec", 1, owner), StatusCode::kResourceExhausted, "--quota-runs");
  ASSERT_OK(Delete({run}));
  EXPECT_OK(runs->Create("", "spec", 1, owner));
}

TEST_F(GcTest, AJobThatRanAgainAfterAnInterruptedDeletionKeepsItsOutputs) {
  // The row of the job is gone, its directories are not, and a new job has reused one of them.
  const std::string job = home_.AddJob({.outputs = {"i1", "p1"}});
  ASSERT_OK(JobDeletions::Open(home_.path())
                .value()
                ->Delete({.id = job,
                          .directories = {"store/ingest-1111111111111111",
                                          "store/pack-1111111111111111"}},
                         "ann", 1));
  const std::string again = home_.AddJob({.outputs = {"i1", "p2"}, .finished = UnixTime()});
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(OlderThan(1)));
  EXPECT_THAT(Deleted(done), ElementsAre(job));
  EXPECT_TRUE(fs::exists(home_.Output("i1")));
  EXPECT_FALSE(fs::exists(home_.Output("p1")));
  EXPECT_THAT(home_.Ids(), ElementsAre(again));
}

}  // namespace gc_test
}  // namespace braid
