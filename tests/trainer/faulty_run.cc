#include "tests/trainer/faulty_run.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "tests/base/file_calls.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_loop.h"

namespace braid {
namespace {

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

void DieAfter(std::chrono::microseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    Die();
  }).detach();
}

// Replaces steps by "N" and attempts by "A": "/checkpoints/step-N.A.tmp/state.json".
std::string WithoutNumbers(std::string path) {
  constexpr std::string_view kStep = "/step-", kOld = ".old.tmp", kTemporary = ".tmp";
  size_t at = path.find(kStep);
  if (at == std::string::npos) return path;
  at += kStep.size();
  const size_t digits = std::min(path.find_first_not_of("0123456789", at), path.size());
  path.replace(at, digits - at, "N");
  ++at;
  const size_t end = path.find(kTemporary, at);
  const bool staging = path[at] == '.' && end < path.find('/', at) && path.find(kOld, at) != at;
  if (staging) path.replace(at, end - at, ".A");
  return path;
}

std::string EventOf(const FileCall& call, const std::string& root) {
  return absl::StrCat(call.name, " ", WithoutNumbers(call.path.substr(root.size())));
}

// Returns "/checkpoints" for "pwrite /checkpoints/step-N.A.tmp/state.json".
std::string DirectoryOf(const std::string& event) {
  const size_t begin = event.find('/');
  if (begin == std::string::npos) return "";
  return event.substr(begin, event.find('/', begin + 1) - begin);
}

// Counts events and injects the fault at the selected one.
class EventLog {
 public:
  explicit EventLog(Fault fault) : fault_(std::move(fault)) {}

  void Pass(const std::string& event) {
    if (Count(event)) Reach(event);
  }

  // Returns the errno for this call, or 0.
  int PassFile(const FileCall& call, const std::string& root) {
    const std::string event = EventOf(call, root);
    if (fault_.error == 0) {
      Pass(event);
      return 0;
    }
    if (Count(event)) failing_ = true;
    return failing_ && DirectoryOf(event) == DirectoryOf(fault_.event) &&
                   !absl::StartsWith(call.name, "unlink")
               ? fault_.error
               : 0;
  }

  // Records the start of step 1; called by any rank.
  void Begin() {
    if (fault_.after_us > 0) {
      std::call_once(begun_, [&] { DieAfter(std::chrono::microseconds(fault_.after_us)); });
    }
  }

  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  bool Count(const std::string& event) {
    const std::lock_guard lock(mutex_);
    return ++counts_[event] == fault_.occurrence && event == fault_.event && fault_.after_us == 0;
  }

  void Reach(const std::string& event) {
    const auto end = [linger = fault_.linger_ms] {
      if (linger == 0) Die();
      DieAfter(std::chrono::milliseconds(linger));
      while (true) pause();
    };
    if (absl::StartsWith(event, "write ") || absl::StartsWith(event, "pwrite ")) {
      TearNextWrite(end);
    } else {
      end();
    }
  }

  const Fault fault_;
  std::once_flag begun_;
  std::atomic<bool> failing_ = false;
  std::mutex mutex_;
  std::map<std::string, int64_t> counts_;
};

// Reports every call to the log.
class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(Communicator* ranks, EventLog* log, std::string thread = "")
      : ranks_(ranks), log_(log), thread_(std::move(thread)) {}

  int rank() const override { return ranks_->rank(); }
  int world_size() const override { return ranks_->world_size(); }
  absl::Status AllReduceSum(std::span<float> values) override {
    return Watch("sum of floats", [&] { return ranks_->AllReduceSum(values); });
  }
  absl::Status AllReduceSum(std::span<double> values) override {
    return Watch("sum of doubles", [&] { return ranks_->AllReduceSum(values); });
  }
  absl::Status ReduceSum(std::span<float> values, int root) override {
    return Watch("sum for one rank", [&] { return ranks_->ReduceSum(values, root); });
  }
  absl::Status AllGatherShards(std::span<float> values) override {
    return Watch("gathering shards", [&] { return ranks_->AllGatherShards(values); });
  }
  absl::Status Broadcast(std::span<char> bytes, int root) override {
    return Watch("broadcast", [&] { return ranks_->Broadcast(bytes, root); });
  }
  absl::Status Barrier() override {
    return Watch("barrier", [&] { return ranks_->Barrier(); });
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> ranks, ranks_->Duplicate());
    Communicator* const unowned = ranks.get();
    auto duplicate = std::make_unique<WatchedCommunicator>(unowned, log_, " in background");
    duplicate->owned_ = std::move(ranks);
    return duplicate;
  }
  void Abort(int exit_code) override { ranks_->Abort(exit_code); }

 private:
  template <class Call>
  absl::Status Watch(const char* name, Call call) {
    log_->Pass(absl::StrCat("rank ", rank(), thread_, " before ", name));
    const absl::Status result = call();
    log_->Pass(absl::StrCat("rank ", rank(), thread_, " after ", name));
    return result;
  }

  Communicator* const ranks_;
  EventLog* const log_;
  const std::string thread_;
  std::unique_ptr<Communicator> owned_;  // set for a duplicate
};

absl::Status TrainRank(Communicator& ranks, const RunDirectory& run, const v1::RunSpec& spec,
                       EventLog* log) {
  WatchedCommunicator watched(&ranks, log);
  std::ostringstream out;
  LoopEnvironment environment;
  environment.communicator = &watched;
  environment.now = [log, clock = StepClock(),
                     event = absl::StrCat("rank ", ranks.rank(), " clock")] {
    log->Pass(event);
    log->Begin();
    return clock();
  };
  environment.out = &out;
  environment.warnings = &out;
  return TrainingLoop(run, spec, environment).Run().status();
}

absl::Status Train(const RunDirectory& run, const v1::RunSpec& spec, EventLog* log) {
  SetModelThreads(1);
  const std::string root = run.root().string();
  WatchFileCalls([&](const FileCall& call) {
    return absl::StartsWith(call.path, root) ? log->PassFile(call, root) : 0;
  });
  const auto train = [&](Communicator& ranks) { return TrainRank(ranks, run, spec, log); };
  const auto results = RunThreadedRanks(spec.world_size(), train);
  WatchFileCalls(nullptr);
  for (const absl::Status& status : results) {
    if (!status.ok() && !absl::IsAborted(status)) return status;
  }
  return absl::OkStatus();
}

// The child's result file: code, message, then "count event" lines.
[[noreturn]] void RunChild(const RunDirectory& run, const v1::RunSpec& spec, const Fault& fault,
                           const std::filesystem::path& report) {
  EventLog log(fault);
  const absl::Status status = Train(run, spec, &log);
  std::ofstream file(report);
  file << status.raw_code() << "\n" << absl::StrReplaceAll(status.message(), {{"\n", " "}}) << "\n";
  for (const auto& [event, count] : log.counts()) file << count << " " << event << "\n";
  file.close();
  _exit(0);
}

ChildResult ReadReport(const std::filesystem::path& report) {
  ChildResult result;
  std::ifstream file(report);
  std::string code, text;
  BRAID_CHECK(std::getline(file, code) && std::getline(file, text)) << "the child left no report";
  result.status = absl::Status(static_cast<absl::StatusCode>(std::stoi(code)), text);
  int64_t count = 0;
  while (file >> count && std::getline(file >> std::ws, text)) result.events[text] = count;
  return result;
}

}  // namespace

ChildResult TrainInChild(const RunDirectory& run, const v1::RunSpec& spec, const Fault& fault,
                         const std::function<void()>& prepare) {
  const std::filesystem::path directory = NewDirectory("report"), report = directory / "events";
  // `prepare` may change the user.
  std::filesystem::permissions(directory, std::filesystem::perms::all);
  const pid_t child = fork();
  BRAID_CHECK(child >= 0) << "fork";
  if (child == 0) {
    SkipFlushes();
    prepare();
    RunChild(run, spec, fault, report);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) return ReadReport(report);
  BRAID_CHECK(WTERMSIG(status) == SIGKILL) << "signal " << WTERMSIG(status);
  return {.killed = true, .status = absl::OkStatus(), .events = {}};
}

}  // namespace braid
