#include "reproduce/run_scorer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "client/repeatable_request_id.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

// Parses the content of a file of scores: the CRC-32C of a message as eight digits, then the
// message. Returns false for any other content, which is then scored again.
bool ParseScores(std::string_view content, google::protobuf::Message* result) {
  constexpr size_t kDigits = 8;
  if (content.size() < kDigits) return false;
  const std::string bytes(content.substr(kDigits));
  return !bytes.empty() && content.substr(0, kDigits) == Crc32cToHex(Crc32c(bytes)) &&
         result->ParseFromString(bytes);
}

class RunScorer {
 public:
  RunScorer(const AnalysisClient& client, const std::vector<ScoringTask>& tasks,
            const std::filesystem::path& directory, ProgressBoard& board,
            std::chrono::milliseconds patience)
      : client_(client), tasks_(tasks), directory_(directory), board_(board), patience_(patience) {}

  absl::StatusOr<std::vector<TaskScores>> Run(int slots) {
    scores_.assign(tasks_.size(), absl::CancelledError("interrupted"));
    Show();
    {
      std::vector<std::jthread> threads;
      const auto most = static_cast<size_t>(ScoringThreads(slots));
      for (size_t i = std::min(most, tasks_.size()); i > 0; --i) {
        threads.emplace_back([this] { Work(); });
      }
    }
    if (Interrupted()) {
      return absl::CancelledError("interrupted; repeat the command to continue");
    }
    RETURN_IF_ERROR(away_);
    return std::move(scores_);
  }

 private:
  bool Ended() const { return Interrupted() || is_away_; }

  void Work() {
    for (size_t task = next_++; task < tasks_.size() && !Ended(); task = next_++) {
      scores_[task] = ScoreTask(tasks_[task]);
      ++num_done_;
      Show();
    }
  }

  void Show() {
    const std::lock_guard lock(mutex_);
    Progress progress;
    progress.done = num_done_;
    progress.total = static_cast<int64_t>(tasks_.size());
    progress.unit = "models";
    if (num_waiting_ > 0) progress.detail = kServiceAwayText;
    board_.Update("score", progress);
  }

  TaskScores ScoreTask(const ScoringTask& task) {
    RunScores scores;
    for (const v1::EvaluateRequest& request : task.requests) {
      ASSIGN_OR_RETURN(scores.evaluations.emplace_back(), Score(task.run, request));
    }
    for (const PlannedTaskScore& planned : task.task_requests) {
      ASSIGN_OR_RETURN(const v1::TasksResult result, ScoreOnTasks(task, planned));
      for (const v1::TaskResult& each : result.results()) {
        scores.tasks.push_back(TaskScoreOf(each, planned.scoring));
      }
    }
    RETURN_IF_ERROR(Analyze(task, &scores));
    return scores;
  }

  absl::Status Analyze(const ScoringTask& task, RunScores* scores) {
    if (task.experts.has_value()) {
      ASSIGN_OR_RETURN(
          scores->experts,
          (Analyzed<v1::ExpertActivity>(IdOf(task.run, *task.experts), [&](AnalysisClient& client) {
            return client.AnalyzeExperts(*task.experts, [](auto&) {});
          })));
    }
    if (task.layers.has_value()) {
      ASSIGN_OR_RETURN(
          scores->layers,
          (Analyzed<v1::LayerAnalysis>(TaskIdOf(task, *task.layers), [&](AnalysisClient& client) {
            return client.AnalyzeLayers(*task.layers, [](auto&) {});
          })));
    }
    return absl::OkStatus();
  }

  // Returns the result in the event that `call` returns.
  template <typename Result, typename Call>
  absl::StatusOr<Result> Analyzed(const std::string& id, Call call) {
    return StoredOr<Result>(id, [&]() -> absl::StatusOr<Result> {
      ASSIGN_OR_RETURN(const auto event, Patiently(call));
      return event.result();
    });
  }

  // The id alone is not enough, since it is given to another run once the files of the service are
  // deleted.
  static std::string IdOf(const v1::Run& run, const google::protobuf::Message& request) {
    const std::string name =
        absl::StrFormat("%s-%s-%.0f", run.spec().name(), run.id(), run.created_at());
    return RepeatableRequestId(name, request);
  }

  static std::string TaskIdOf(const ScoringTask& task, const google::protobuf::Message& request) {
    return absl::StrCat(IdOf(task.run, request), "-", task.tasks_digest);
  }

  // Returns the stored response, or that of `call`, which is then stored.
  template <typename Result, typename Call>
  absl::StatusOr<Result> StoredOr(const std::string& id, Call call) {
    const std::filesystem::path file = directory_ / absl::StrCat(id, ".binpb");
    const absl::StatusOr<std::string> kept = ReadFile(file);
    Result result;
    if (kept.ok() && ParseScores(*kept, &result)) return result;
    ASSIGN_OR_RETURN(result, call());
    const std::string bytes = result.SerializeAsString();
    RETURN_IF_ERROR(WriteFileAtomically(file, Crc32cToHex(Crc32c(bytes)) + bytes));
    return result;
  }

  absl::StatusOr<v1::EvaluationResult> Score(const v1::Run& run, v1::EvaluateRequest request) {
    return StoredOr<v1::EvaluationResult>(IdOf(run, request), [&] {
      request.set_strict(true);
      return Patiently([&](AnalysisClient& client) {
        return client.Evaluate(request, [](const v1::EvaluateEvent&) {});
      });
    });
  }

  absl::StatusOr<v1::TasksResult> ScoreOnTasks(const ScoringTask& task,
                                               const PlannedTaskScore& planned) {
    std::string id = TaskIdOf(task, planned.request);
    if (planned.conversion.has_value()) id = RepeatableRequestId(id, *planned.conversion);
    return StoredOr<v1::TasksResult>(id, [&]() -> absl::StatusOr<v1::TasksResult> {
      v1::EvaluateTasksRequest request = planned.request;
      if (planned.conversion.has_value()) {
        ASSIGN_OR_RETURN(const std::string converted, Convert(*planned.conversion, id));
        request.set_model(converted);
        request.set_answers_dir(absl::StrCat(converted, "-answers"));
      }
      return Patiently([&](AnalysisClient& client) {
        return client.EvaluateTasks(request, [](const v1::EvaluateTasksEvent&) {});
      });
    });
  }

  // Converts a model and returns the directory of the converted one.
  absl::StatusOr<std::string> Convert(v1::ConvertRequest request, const std::string& id) {
    RETURN_IF_ERROR(MakeDirectories(directory_ / "converted"));
    request.set_output_dir((directory_ / "converted" / id).string());
    ASSIGN_OR_RETURN(const v1::ConvertResponse response,
                     Patiently([&](AnalysisClient& client) { return client.Convert(request); }));
    return response.output_dir();
  }

  // Calls the service until it answers.
  template <typename Call>
  auto Patiently(Call call) -> decltype(call(std::declval<AnalysisClient&>())) {
    AnalysisClient client = client_;
    ServicePatience patience(patience_);
    while (true) {
      auto result = call(client);
      const bool waits = patience.Waits(result.status());
      if (Ended() || !LostServer(result.status())) return result;
      if (!waits) {
        GiveUp(result.status());
        return result;
      }
      Pause();
    }
  }

  void Pause() {
    ++num_waiting_;
    Show();
    std::this_thread::sleep_for(kReconnectPause);
    --num_waiting_;
  }

  void GiveUp(const absl::Status& last) {
    const std::lock_guard lock(mutex_);
    away_ = absl::UnavailableError(
        absl::StrCat("the analysis service became unavailable and did not return; repeat the "
                     "command to continue: ",
                     last.message()));
    is_away_ = true;
  }

  const AnalysisClient& client_;
  const std::vector<ScoringTask>& tasks_;
  const std::filesystem::path& directory_;
  std::mutex mutex_;
  ProgressBoard& board_;  // guarded by mutex_
  const std::chrono::milliseconds patience_;
  // The reason why no further task is started. Guarded by mutex_ until the threads have ended.
  absl::Status away_;
  std::atomic<bool> is_away_ = false;
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> num_done_ = 0;
  std::atomic<int> num_waiting_ = 0;  // threads that wait for the service
  std::vector<TaskScores> scores_;    // each written by the thread of its task
};

}  // namespace

int ScoringThreads(int slots) {
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::clamp(slots, 1, cores);
}

absl::StatusOr<std::vector<TaskScores>> ScoreRuns(const AnalysisClient& client,
                                                  const std::vector<ScoringTask>& tasks, int slots,
                                                  const std::filesystem::path& directory,
                                                  ProgressBoard& board,
                                                  std::chrono::milliseconds patience) {
  RETURN_IF_ERROR(MakeDirectories(directory));
  ASSIGN_OR_RETURN(std::vector<TaskScores> scores,
                   RunScorer(client, tasks, directory, board, patience).Run(slots));
  board.Finish("score", Counted(std::ssize(tasks), "model"));
  return scores;
}

}  // namespace braid
