#include "client/follow.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "braid/v1/pipeline.grpc.pb.h"
#include "braid/v1/training.grpc.pb.h"
#include "client/run_screen.h"
#include "rpc/interrupt.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace follow_test {

TEST(RunProgressTest, BeforeTheFirstStepNothingIsMeasured) {
  v1::StepMetrics metrics;
  EXPECT_EQ(FormatProgress("run", RunProgress(metrics, 20, 0), 5, 80),
            FormatProgress("run", {.total = 20, .unit = "steps"}, 0, 80));
  metrics.set_step(1);
  metrics.set_loss(8.25);
  EXPECT_THAT(FormatProgress("run", RunProgress(metrics, 20, 6), 5, 120),
              testing::AllOf(testing::HasSubstr("loss 8.250"), testing::HasSubstr("ETA 0:06")));
}

// Services with one job, whose events are given, and without any run.
class ScriptedJobs final : public v1::PipelineService::Service {
 public:
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    for (const v1::JobEvent& event : events) writer->Write(event);
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    if (is_away) return {grpc::StatusCode::UNAVAILABLE, "braidd at head:7000 went away"};
    response->set_id(request->id());
    response->set_state(state);
    return grpc::Status::OK;
  }
  // Accepts every job, but loses the first `lost_answers` answers.
  grpc::Status SubmitCorpus(grpc::ServerContext*, const v1::SubmitCorpusRequest* request,
                            v1::Job* response) override {
    submitted.push_back(request->request_id());
    if (std::ssize(submitted) <= lost_answers) {
      return {grpc::StatusCode::UNAVAILABLE, "braidd at head:7000 went away"};
    }
    response->set_id("job-000001");
    return grpc::Status::OK;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override {
    *response = listed;
    return grpc::Status::OK;
  }

  void Add(v1::JobState job_state, const std::string& message) {
    v1::JobEvent& event = events.emplace_back();
    event.set_number(std::ssize(events));
    event.set_state(job_state);
    event.set_message(message);
  }
  void AddStage(const std::string& name, bool complete, bool reused) {
    Add(v1::JOB_RUNNING, "");
    v1::StageProgress* const stage = events.back().mutable_progress();
    stage->set_stage(name);
    stage->set_complete(complete);
    stage->set_reused(reused);
  }

  void AddToList(const std::string& id, v1::JobState job_state) {
    v1::Job* const job = listed.add_jobs();
    job->set_id(id);
    job->set_state(job_state);
  }

  std::vector<v1::JobEvent> events;
  v1::JobState state = v1::JOB_SUCCEEDED;
  v1::ListJobsResponse listed;
  bool is_away = false;
  int lost_answers = 0;
  std::vector<std::string> submitted;  // the request ids
};

// A service with one run: the first call finds it running, the next `lost` calls end with `code`,
// and later ones find that it has succeeded. If `lost` is negative, all calls end with `code`.
class AwayRuns final : public v1::TrainingService::Service {
 public:
  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest* request,
                      v1::Run* response) override {
    const int call = num_calls++;
    if (lost < 0 || (call > 0 && call <= lost)) return {code, "braidd at head:7000 went away"};
    response->set_id(request->id());
    response->set_state(call == 0 ? v1::RUN_RUNNING : v1::RUN_SUCCEEDED);
    return grpc::Status::OK;
  }

  // The first `lost` calls end with `code`.
  grpc::Status LaunchRun(grpc::ServerContext*, const v1::LaunchRunRequest* request,
                         v1::Run* response) override {
    if (lost < 0 || num_calls++ < lost) return {code, "braidd at head:7000 went away"};
    response->set_id("run of " + request->request_id());
    return grpc::Status::OK;
  }

  grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
  int lost = -1;
  int num_calls = 0;
};

class FollowTest : public testing::Test {
 protected:
  FollowTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&jobs_);
    builder.RegisterService(&runs_);
    server_ = builder.BuildAndStart();
  }
  ~FollowTest() override { server_->Shutdown(); }

  absl::StatusOr<v1::Job> Job(bool in_process = false) {
    PipelineClient client(server_->InProcessChannel({}), in_process);
    return FollowJob(client, "job-000001", board_);
  }
  absl::StatusOr<v1::Run> Run() {
    TrainingClient client(server_->InProcessChannel({}));
    return FollowRun(client, "run-000001", "run-000001", board_);
  }

  ScriptedJobs jobs_;
  AwayRuns runs_;
  std::unique_ptr<grpc::Server> server_;
  std::ostringstream told_;
  ProgressBoard board_{told_, /*terminal=*/false};
};

TEST_F(FollowTest, AnotherAttemptIsAnnouncedAndItsReusedStagesAreShownOnce) {
  jobs_.Add(v1::JOB_QUEUED, "submitted");
  for (const bool again : {false, true, true}) {
    if (again)
      jobs_.Add(v1::JOB_QUEUED, "attempt 1 failed: embed: host:7078 is away; queued again");
    jobs_.Add(v1::JOB_RUNNING, "started");
    jobs_.AddStage("ingest", /*complete=*/true, /*reused=*/true);
    jobs_.events.back().mutable_progress()->add_notes("no record has it");
    jobs_.AddStage("tokenize", /*complete=*/true, /*reused=*/again);
  }
  ASSERT_OK(Job());
  EXPECT_THAT(told_.str(), testing::MatchesRegex(
                               "ingest +reused\n"
                               "ingest +note: no record has it\n"
                               "tokenize +done in [^\n]*\n"
                               "job-000001 +attempt 1 failed: embed: host:7078 is away; queued "
                               "again\n"
                               "job-000001 +attempt 1 failed: embed: host:7078 is away; queued "
                               "again\n"));
}

TEST_F(FollowTest, AQueuedJobOfThisProcessNamesTheJobsBeforeIt) {
  jobs_.state = v1::JOB_QUEUED;
  jobs_.AddToList("job-000002", v1::JOB_QUEUED);
  jobs_.AddToList("job-000001", v1::JOB_QUEUED);
  ASSERT_OK(Job(/*in_process=*/true));
  EXPECT_EQ(told_.str(), "") << "later jobs do not delay it";
  jobs_.listed.Clear();
  jobs_.AddToList("job-000003", v1::JOB_RUNNING);
  jobs_.AddToList("job-000001", v1::JOB_QUEUED);
  jobs_.AddToList("job-000000", v1::JOB_QUEUED);
  ASSERT_OK(Job());
  EXPECT_EQ(told_.str(), "") << "a server may run several jobs at a time";
  ASSERT_OK(Job(/*in_process=*/true));
  EXPECT_THAT(told_.str(),
              testing::MatchesRegex("job-000001 +waits for job-000003 .running., job-000000 "
                                    ".queued.; cancel a job that is not needed with: braid cancel "
                                    "ID\n"));
}

TEST_F(FollowTest, AServiceThatWentAwayLeavesWhatIsFollowed) {
  jobs_.is_away = true;
  EXPECT_EQ(Job().status(),
            absl::UnavailableError("braidd at head:7000 went away; job-000001 continues once "
                                   "braidd is back; follow it with: braid status job-000001 "
                                   "--watch"));
  EXPECT_EQ(Run().status(),
            absl::UnavailableError("braidd at head:7000 went away; run-000001 continues without "
                                   "it; follow it with: braid status run-000001 --watch"));
  runs_.code = grpc::StatusCode::NOT_FOUND;
  EXPECT_EQ(Run().status(), absl::NotFoundError("braidd at head:7000 went away"));
}

TEST_F(FollowTest, ARequestWhoseAnswerWasLostIsRepeatedWithItsId) {
  PipelineClient pipeline(server_->InProcessChannel({}));
  v1::SubmitCorpusRequest job;
  job.set_request_id("mine");
  jobs_.lost_answers = 2;
  ASSERT_OK(SubmitOnce(pipeline, job, board_));
  EXPECT_THAT(jobs_.submitted, testing::ElementsAre("mine", "mine", "mine"));
  EXPECT_THAT(told_.str(), testing::MatchesRegex("job +service unavailable; waiting\n"));

  TrainingClient training(server_->InProcessChannel({}));
  v1::LaunchRunRequest run;
  run.set_request_id("mine");
  runs_.lost = 1;
  const absl::StatusOr<v1::Run> launched = LaunchOnce(training, run, board_);
  ASSERT_OK(launched);
  EXPECT_EQ(launched->id(), "run of mine");
  runs_.lost = -1;
  runs_.code = grpc::StatusCode::NOT_FOUND;
  EXPECT_EQ(LaunchOnce(training, run, board_).status(),
            absl::NotFoundError("braidd at head:7000 went away"));
}

TEST_F(FollowTest, ARequestIsNotRepeatedForeverNorWithoutAnId) {
  PipelineClient client(server_->InProcessChannel({}));
  jobs_.lost_answers = 1000;
  const absl::Status lost = absl::UnavailableError(
      "braidd at head:7000 went away; the job may have been accepted; see: braid jobs");
  EXPECT_EQ(SubmitOnce(client, {}, board_).status(), lost);
  EXPECT_EQ(jobs_.submitted.size(), 1u);
  v1::SubmitCorpusRequest request;
  request.set_request_id("mine");
  EXPECT_EQ(SubmitOnce(client, request, board_, std::chrono::seconds(1)).status(), lost);
  EXPECT_GE(jobs_.submitted.size(), 3u);
}

TEST_F(FollowTest, PollingAsksAgainWhenTheServiceDoesNotAnswer) {
  TrainingClient client(server_->InProcessChannel({}));
  constexpr std::chrono::milliseconds kPatience(200);
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED,
                          grpc::StatusCode::DEADLINE_EXCEEDED}) {
    runs_.num_calls = 0;
    runs_.code = code;
    runs_.lost = 1;
    int num_lost = 0;
    const auto run = PollRun(
        client, "run-000001",
        // As if this process was stopped after the first answer: that time is not the service's.
        [&](const v1::Run&) { std::this_thread::sleep_for(2 * kPatience); }, [&] { ++num_lost; },
        kPatience);
    ASSERT_OK(run);
    EXPECT_EQ(run->state(), v1::RUN_SUCCEEDED);
    EXPECT_EQ(num_lost, 1);
  }
  runs_.lost = -1;
  int num_lost = 0;
  const auto run = PollRun(
      client, "run-000001", [](const v1::Run&) {}, [&] { ++num_lost; }, kPatience);
  EXPECT_EQ(run.status(),
            absl::DeadlineExceededError("braidd at head:7000 went away; run-000001 continues "
                                        "without it; follow it with: braid status run-000001 "
                                        "--watch"));
  EXPECT_EQ(num_lost, 1);
}

TEST_F(FollowTest, AnInterruptNamesTheCommandsForWhatContinues) {
  CatchInterrupts();
  raise(SIGINT);
  const absl::Status of_server = Job().status();
  const absl::Status of_this_process = Job(/*in_process=*/true).status();
  const absl::Status run = Run().status();
  ForgetInterrupt();
  EXPECT_EQ(of_server, absl::CancelledError(
                           "stopped watching; job-000001 continues; follow it with: braid status "
                           "job-000001 --watch; stop it with: braid cancel job-000001"));
  EXPECT_EQ(of_this_process,
            absl::CancelledError("interrupted; unless another process runs it, resume it with: "
                                 "braid resume job-000001 --wait"));
  EXPECT_EQ(run, absl::CancelledError(
                     "stopped watching; run-000001 continues; follow it with: braid status "
                     "run-000001 --watch; stop it with: braid stop run-000001"));
}

}  // namespace follow_test
}  // namespace braid
