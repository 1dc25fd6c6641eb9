#include "tests/pipeline/jobs/faulty_job.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/store/stage_store.h"
#include "tests/base/file_calls.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyDigits = 16;

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

std::string ReadWhole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns a path without the key: "embed.tmp/resume.json" for
// ".../store/embed-0123456789abcdef.tmp/resume.json".
std::string WithoutKey(std::string path) {
  const size_t dash = path.find('-');
  if (dash != std::string::npos && path.find('/') > dash) path.erase(dash, 1 + kKeyDigits);
  return path;
}

// Counts the calls and injects the fault at the chosen one.
class CallLog {
 public:
  CallLog(fs::path store, JobFault fault, fs::path points)
      : store_(store.string() + "/"), fault_(std::move(fault)), points_(std::move(points)) {}

  // Returns the errno for this call, or 0.
  int Pass(const FileCall& call) {
    if (!absl::StartsWith(call.path, store_)) return 0;
    const std::lock_guard lock(mutex_);
    calls_.push_back(absl::StrCat(call.name, " ", WithoutKey(call.path.substr(store_.size()))));
    if (absl::EndsWith(calls_.back(), ".tmp/resume.json") && calls_.back()[0] == 'r') {
      LogPoint(call.path + ".tmp");
    }
    if (fault_.after_us == 0 && static_cast<int64_t>(calls_.size()) == fault_.call) Reach(call);
    return failing_ && !absl::StartsWith(call.name, "unlink") ? fault_.error : 0;
  }

  const std::vector<std::string>& calls() const { return calls_; }

 private:
  void Reach(const FileCall& call) {
    failing_ = fault_.error != 0;
    if (failing_) return;
    if (absl::StrContains(call.name, "write")) {
      TearNextWrite(Die);
    } else {
      Die();
    }
  }

  void LogPoint(const fs::path& record) {
    const auto json = nlohmann::json::parse(ReadWhole(record));
    std::ofstream(points_, std::ios::app)
        << json["stage"].get<std::string>() << " " << json["step"].get<std::string>() << " "
        << json["position"] << std::endl;
  }

  const std::string store_;
  const JobFault fault_;
  const fs::path points_;
  std::mutex mutex_;
  bool failing_ = false;
  std::vector<std::string> calls_;
};

// Writes the report of the child for its parent: code, message, then the calls.
[[noreturn]] void RunChild(const fs::path& home, const v1::CorpusSpec& spec, int64_t chunk_bytes,
                           const JobFault& fault, const fs::path& directory, std::ofstream report) {
  CallLog log(home / "store", fault, directory / "points");
  WatchFileCalls([&](const FileCall& call) { return log.Pass(call); });
  StageStore store(home / "store", {.chunk_bytes = chunk_bytes});
  const JobHooks hooks = {.report = [](const v1::StageProgress&) {}, .stop = [] { return false; }};
  if (fault.after_us > 0) {
    std::thread([us = fault.after_us] {
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      Die();
    }).detach();
  }
  const absl::Status status = RunJob(*ResolveCorpusSpec(spec), &store, hooks).status();
  WatchFileCalls(nullptr);
  report << status.raw_code() << "\n"
         << absl::StrReplaceAll(status.message(), {{"\n", " "}}) << "\n";
  for (const std::string& call : log.calls()) report << call << "\n";
  report.close();
  _exit(0);
}

std::vector<std::string> ReadLines(std::istream& file) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

JobOutcome RunJobInChild(const fs::path& home, const v1::CorpusSpec& spec, int64_t chunk_bytes,
                         const JobFault& fault, const std::function<void()>& prepare) {
  const fs::path directory = NewDirectory();
  fs::permissions(directory, fs::perms::all);  // `prepare` may change the user
  const pid_t child = fork();
  BRAID_CHECK(child >= 0) << "fork";
  if (child == 0) {
    SkipFlushes();
    std::ofstream report(directory / "report");  // before `prepare` limits what can be opened
    prepare();
    RunChild(home, spec, chunk_bytes, fault, directory, std::move(report));
  }
  int status = 0;
  waitpid(child, &status, 0);
  JobOutcome outcome;
  outcome.killed = WIFSIGNALED(status);
  BRAID_CHECK(!outcome.killed || WTERMSIG(status) == SIGKILL) << "signal " << WTERMSIG(status);
  std::ifstream points(directory / "points");
  outcome.points = ReadLines(points);
  const absl::Cleanup remove = [&] { fs::remove_all(directory); };
  if (outcome.killed) return outcome;
  std::ifstream report(directory / "report");
  std::string code, message;
  BRAID_CHECK(std::getline(report, code) && std::getline(report, message)) << "no report";
  outcome.status = absl::Status(static_cast<absl::StatusCode>(std::stoi(code)), message);
  outcome.calls = ReadLines(report);
  return outcome;
}

std::map<std::string, std::string> StoreContents(const fs::path& home) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(home / "store")) {
    const std::string name = entry.path().lexically_relative(home / "store").string();
    contents[name] = entry.is_regular_file() ? ReadWhole(entry.path()) : "";
  }
  return contents;
}

std::string StageOfCall(const std::string& call) {
  const size_t begin = call.find(' ') + 1;
  return call.substr(begin, call.find_first_of("./", begin) - begin);
}

}  // namespace braid
