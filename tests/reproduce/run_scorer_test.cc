#include "reproduce/run_scorer.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "braid/v1/analysis.grpc.pb.h"
#include "braid/v1/analysis.pb.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace run_scorer_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Answers with an evaluation named after the model. "broken" is refused; the first `lost` calls end
// as if the service went away, with `lost_as`. Calls are answered in groups of `group_size` that
// were in progress at the same time.
class ScriptedService final : public v1::AnalysisService::Service {
 public:
  grpc::Status Evaluate(grpc::ServerContext*, const v1::EvaluateRequest* request,
                        grpc::ServerWriter<v1::EvaluateEvent>* writer) override {
    MeetOthers();
    ++calls;
    if (lost-- > 0) return {lost_as, "shutting down"};
    if (request->models(0) == "broken") return {grpc::StatusCode::INVALID_ARGUMENT, "no shape"};
    v1::EvaluateEvent event;
    event.mutable_result()->add_evaluations()->set_model(request->models(0));
    writer->Write(event);
    return grpc::Status::OK;
  }
  // Answers with one example of each task, and records the model.
  grpc::Status EvaluateTasks(grpc::ServerContext*, const v1::EvaluateTasksRequest* request,
                             grpc::ServerWriter<v1::EvaluateTasksEvent>* writer) override {
    MeetOthers();
    ++calls;
    asked_model = request->model();
    v1::EvaluateTasksEvent event;
    for (const v1::TaskSpec& task : request->tasks()) {
      v1::TaskResult* const result = event.mutable_result()->add_results();
      result->set_task(task.name());
      result->add_examples()->set_answer_loss(0.5);
    }
    writer->Write(event);
    return grpc::Status::OK;
  }
  grpc::Status AnalyzeExperts(grpc::ServerContext*, const v1::AnalyzeExpertsRequest*,
                              grpc::ServerWriter<v1::AnalyzeExpertsEvent>* writer) override {
    ++calls;
    v1::AnalyzeExpertsEvent event;
    event.mutable_result()->add_layers()->set_mass_share(0.4);
    writer->Write(event);
    return grpc::Status::OK;
  }
  grpc::Status AnalyzeLayers(grpc::ServerContext*, const v1::AnalyzeLayersRequest* request,
                             grpc::ServerWriter<v1::AnalyzeLayersEvent>* writer) override {
    ++calls;
    v1::AnalyzeLayersEvent event;
    event.mutable_result()->add_choices()->set_task(request->tasks(0));
    writer->Write(event);
    return grpc::Status::OK;
  }
  grpc::Status Convert(grpc::ServerContext*, const v1::ConvertRequest* request,
                       v1::ConvertResponse* response) override {
    ++conversions;
    response->set_output_dir(request->output_dir());
    return grpc::Status::OK;
  }
  int most_at_once() const {
    const std::lock_guard lock(mutex_);
    return most_at_once_;
  }

  std::atomic<int> calls = 0, lost = 0, conversions = 0;
  // Model of the last scoring on tasks; for tests with one thread.
  std::string asked_model;
  grpc::StatusCode lost_as = grpc::StatusCode::UNAVAILABLE;
  int group_size = 1;

 private:
  // Blocks until the group of this call is complete, for at most 30 s.
  void MeetOthers() {
    std::unique_lock lock(mutex_);
    most_at_once_ = std::max(most_at_once_, ++at_once_);
    const int group = num_arrived_++ / group_size;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30),
                                  [&] { return num_arrived_ >= (group + 1) * group_size; }))
        << "fewer than " << group_size << " calls at a time";
    --at_once_;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int num_arrived_ = 0, at_once_ = 0, most_at_once_ = 0;  // guarded by mutex_
};

ScoringTask TaskOf(const std::vector<std::string>& models) {
  ScoringTask task;
  task.run.set_id("run-" + models.front());
  task.run.set_created_at(17);
  for (const std::string& model : models) task.requests.emplace_back().add_models(model);
  return task;
}

class RunScorerTest : public testing::Test {
 protected:
  RunScorerTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  absl::StatusOr<std::vector<TaskScores>> Score(const std::vector<ScoringTask>& tasks,
                                                int slots = 2,
                                                milliseconds patience = milliseconds(5000)) {
    const AnalysisClient client(server_->InProcessChannel({}));
    return ScoreRuns(client, tasks, slots, directory_, board_, patience);
  }
  std::vector<std::filesystem::path> KeptFiles() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      files.push_back(entry.path());
    }
    return files;
  }

  const ScratchDirectory scratch_;
  const std::filesystem::path directory_ = scratch_.path();
  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::ostringstream told_;
  ProgressBoard board_{told_, /*terminal=*/false};
};

void ExpectModels(const TaskScores& scores, const std::vector<std::string>& models) {
  ASSERT_TRUE(scores.ok()) << scores.status();
  std::vector<std::string> scored;
  for (const v1::EvaluationResult& result : scores->evaluations) {
    for (const v1::Evaluation& evaluation : result.evaluations()) {
      scored.push_back(evaluation.model());
    }
  }
  EXPECT_EQ(scored, models);
}

TEST_F(RunScorerTest, ResponsesAreInTheOrderOfTheTasksAndStored) {
  const std::vector<ScoringTask> tasks = {TaskOf({"a", "b"}), ScoringTask{}, TaskOf({"c"})};
  for (int time = 0; time < 2; ++time) {
    const auto scores = Score(tasks);
    ASSERT_TRUE(scores.ok()) << scores.status();
    ASSERT_EQ(scores->size(), 3);
    ExpectModels((*scores)[0], {"a", "b"});
    ExpectModels((*scores)[1], {});
    ExpectModels((*scores)[2], {"c"});
    EXPECT_EQ(service_.calls, 3);
  }
  EXPECT_THAT(told_.str(), HasSubstr("3 models"));
}

TEST_F(RunScorerTest, AResponseBelongsToOneRun) {
  ScoringTask task = TaskOf({"a"});
  ASSERT_TRUE(Score({task}).ok());
  // The same id is given to another run after the files of the service were deleted.
  task.run.set_created_at(18);
  ASSERT_TRUE(Score({task}).ok());
  EXPECT_EQ(service_.calls, 2);
}

TEST_F(RunScorerTest, AResponseOnTasksBelongsToTheirFiles) {
  ScoringTask task = TaskOf({"a"});
  task.requests.clear();
  task.task_requests.emplace_back().request.add_tasks()->set_name("sst2");
  for (const char* digest : {"before", "after"}) {
    task.tasks_digest = digest;
    for (int time = 0; time < 2; ++time) ASSERT_TRUE(Score({task}).ok());
  }
  EXPECT_EQ(service_.calls, 2);
}

TEST_F(RunScorerTest, ModelsAreScoredOnTasksAsTheyAreAndConverted) {
  ScoringTask task = TaskOf({"a"});
  PlannedTaskScore planned;
  planned.request.set_model("run-a");
  planned.request.add_tasks()->set_name("sst2");
  planned.request.add_tasks()->set_name("yelp");
  task.task_requests.push_back(planned);
  planned.scoring = "routed";
  planned.conversion.emplace().mutable_split()->set_num_experts(16);
  task.task_requests.push_back(planned);
  for (int time = 0; time < 2; ++time) {
    const auto scores = Score({task}, 1);
    ASSERT_TRUE(scores.ok()) << scores.status();
    ASSERT_TRUE((*scores)[0].ok()) << (*scores)[0].status();
    const std::vector<TaskScore>& tasks = (*scores)[0]->tasks;
    ASSERT_EQ(tasks.size(), 4);
    EXPECT_EQ(tasks[1].task, "yelp");
    EXPECT_EQ(tasks[1].scoring, "");
    EXPECT_EQ(tasks[2].task, "sst2");
    EXPECT_EQ(tasks[2].scoring, "routed");
    EXPECT_EQ(tasks[2].answer_losses, std::vector<double>{0.5});
    EXPECT_TRUE(tasks[2].figures.empty());
  }
  EXPECT_EQ(service_.calls, 3);
  EXPECT_EQ(service_.conversions, 1);
  EXPECT_THAT(service_.asked_model, HasSubstr((directory_ / "converted").string()));
}

TEST_F(RunScorerTest, DamagedResponsesAreScoredAgain) {
  const std::vector<ScoringTask> tasks = {TaskOf({"a"}), TaskOf({"b"})};
  ASSERT_TRUE(Score(tasks).ok());
  ASSERT_EQ(KeptFiles().size(), 2);
  ASSERT_TRUE(WriteFileAtomically(KeptFiles().front(), "no message \xff").ok());
  const auto scores = Score(tasks);
  ASSERT_TRUE(scores.ok());
  ExpectModels((*scores)[0], {"a"});
  ExpectModels((*scores)[1], {"b"});
  EXPECT_EQ(service_.calls, 3);
}

TEST_F(RunScorerTest, AnErrorAffectsOnlyItsTask) {
  const auto scores = Score({TaskOf({"a"}), TaskOf({"b", "broken"}), TaskOf({"c"})}, 1);
  ASSERT_TRUE(scores.ok()) << scores.status();
  ExpectModels((*scores)[0], {"a"});
  EXPECT_EQ((*scores)[1].status(), absl::InvalidArgumentError("no shape"));
  ExpectModels((*scores)[2], {"c"});
  // The first response of the failed task is stored.
  EXPECT_EQ(KeptFiles().size(), 3);
}

TEST_F(RunScorerTest, WaitsForAServiceThatReturns) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED,
                          grpc::StatusCode::DEADLINE_EXCEEDED}) {
    service_.lost = 4;
    service_.lost_as = code;
    const std::string model = absl::StrCat("model-", static_cast<int>(code));
    const auto scores = Score({TaskOf({model}), TaskOf({model + "b"})});
    ASSERT_TRUE(scores.ok()) << scores.status();
    ExpectModels((*scores)[0], {model});
    ExpectModels((*scores)[1], {model + "b"});
  }
  EXPECT_EQ(service_.calls, 3 * (4 + 2));
}

TEST_F(RunScorerTest, ShowsThatItWaits) {
  service_.lost = 2;  // the board draws a row at most once in 100 ms
  ProgressBoard screen(told_, /*terminal=*/true);
  const AnalysisClient client(server_->InProcessChannel({}));
  const std::vector<ScoringTask> tasks = {TaskOf({"a"})};
  ASSERT_TRUE(ScoreRuns(client, tasks, 1, directory_, screen, milliseconds(5000)).ok());
  EXPECT_THAT(told_.str(), HasSubstr(kServiceAwayText));
}

TEST_F(RunScorerTest, FailsIfTheServiceDoesNotReturn) {
  std::vector<ScoringTask> tasks = {TaskOf({"a"})};
  ASSERT_TRUE(Score(tasks).ok());
  service_.lost = 1000000;
  for (int i = 0; i < 50; ++i) tasks.push_back(TaskOf({absl::StrCat("b", i)}));
  const auto scores = Score(tasks, 2, milliseconds(300));
  EXPECT_EQ(scores.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(scores.status().message()), HasSubstr("shutting down"));
  // Each thread tries only the task that it has started.
  EXPECT_LE(service_.calls, 10);
  service_.lost = 0;
  EXPECT_TRUE(Score(tasks).ok());
}

TEST_F(RunScorerTest, UsesAsManyThreadsAsSlotsTasksAndCoresAllow) {
  const int cores = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
  std::vector<ScoringTask> tasks;
  for (int i = 0; i < 3 * cores; ++i) tasks.push_back(TaskOf({absl::StrCat("a", i)}));
  ASSERT_TRUE(Score(tasks, 1).ok());
  EXPECT_EQ(service_.most_at_once(), 1);
  for (ScoringTask& task : tasks) task.run.set_created_at(18);
  service_.group_size = cores;
  ASSERT_TRUE(Score(tasks, 1000).ok());
  EXPECT_EQ(service_.most_at_once(), cores);
}

TEST_F(RunScorerTest, AnalysesAreStored) {
  ScoringTask task;
  task.run.set_id("run-a");
  task.experts.emplace().set_model("run-a");
  task.layers.emplace().add_tasks("sst2");
  for (int time = 0; time < 2; ++time) {
    const auto scores = Score({task});
    ASSERT_TRUE(scores.ok() && (*scores)[0].ok());
    EXPECT_EQ((*scores)[0]->experts.layers(0).mass_share(), 0.4);
    EXPECT_EQ((*scores)[0]->layers.choices(0).task(), "sst2");
    EXPECT_EQ(service_.calls, 2);
  }
}

}  // namespace run_scorer_test
}  // namespace braid
