// The time in which a job stops on request, in every stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>

#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/store/stage_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace cancel_test {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kMostSeconds = 2;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Has enough different words that training a tokenizer on them takes seconds.
void WriteVariedCorpus(const fs::path& path) {
  std::mt19937_64 random(11);
  std::ofstream file(path);
  for (int document = 0; document < 800; ++document) {
    std::string text;
    for (int word = 0; word < 60; ++word) {
      uint64_t letters = random() >> (random() % 20);
      for (int i = 0; i < 8; ++i, letters /= 26) text += static_cast<char>('a' + letters % 26);
      text += ' ';
    }
    file << nlohmann::json{{"id", document}, {"text", text}} << "\n";
  }
}

struct Cancelled {
  absl::Status status;
  double seconds_to_stop = 0;   // since the request
  double tokenize_seconds = 0;  // for that stage, when it was run to its end
};

// Runs a job and requests a stop `delay` after the start of `stage`.
Cancelled RunUntil(const v1::CorpusSpec& spec, const fs::path& home, const std::string& stage,
                   std::chrono::milliseconds delay) {
  StageStore store(home / "store");
  std::atomic<bool> stop = false;
  Clock::time_point asked;
  std::jthread timer;
  Cancelled result;
  JobHooks hooks;
  hooks.report = [&](const v1::StageProgress& progress) {
    if (progress.complete() && progress.stage() == "tokenize") {
      result.tokenize_seconds = progress.reused() ? 0 : progress.seconds();
    }
    if (progress.stage() != stage || timer.joinable()) return;
    timer = std::jthread([&] {
      std::this_thread::sleep_for(delay);
      asked = Clock::now();
      stop = true;
    });
  };
  hooks.stop = [&] { return stop.load(); };
  result.status = RunJob(*ResolveCorpusSpec(spec), &store, hooks).status();
  if (stop) result.seconds_to_stop = SecondsSince(asked);
  return result;
}

// On a slow file system, a directory of many files takes minutes to list.
TEST(CancelTest, StopsWhileItListsTheCorpus) {
  const fs::path corpus = NewDirectory();
  for (int i = 0; i < 200; ++i)
    std::ofstream(corpus / (std::to_string(i) + ".txt")) << "text " << i;
  StageStore store(NewDirectory() / "store");
  int num_reports = 0;
  const JobHooks hooks = {.report = [&](const v1::StageProgress&) { ++num_reports; },
                          .stop = [] { return true; }};
  const absl::Status status = RunJob(*ResolveCorpusSpec(SmallSpec(corpus)), &store, hooks).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(num_reports, 0) << "the stage has no key yet";
}

TEST(CancelTest, StopsWithinTwoSecondsInEveryStageAndResumes) {
  const fs::path corpus = NewDirectory() / "varied.jsonl", home = NewDirectory();
  WriteVariedCorpus(corpus);
  v1::CorpusSpec spec = SmallSpec(corpus);
  spec.mutable_tokenizer()->set_vocab_size(1500);
  double most = 0, tokenize_seconds = 0;
  for (const std::string& stage : StageNames()) {
    const auto delay = std::chrono::milliseconds(stage == "tokenize" ? 300 : 20);
    const Cancelled result = RunUntil(spec, home, stage, delay);
    EXPECT_LT(result.seconds_to_stop, kMostSeconds) << stage;
    EXPECT_TRUE(result.status.ok() || absl::IsCancelled(result.status)) << result.status;
    if (stage == "tokenize") {
      EXPECT_TRUE(absl::IsCancelled(result.status))
          << "the training of the tokenizer was not interrupted";
      EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "the training process was not reaped";
      EXPECT_EQ(errno, ECHILD);
    }
    most = std::max(most, result.seconds_to_stop);
    tokenize_seconds = std::max(tokenize_seconds, result.tokenize_seconds);
  }
  RecordProperty("most_milliseconds", static_cast<int>(1000 * most));
  RecordProperty("tokenize_milliseconds", static_cast<int>(1000 * tokenize_seconds));
  EXPECT_GT(tokenize_seconds, 0.5) << "too fast to have been cancelled while it ran";
  const Cancelled last = RunUntil(spec, home, "none", std::chrono::milliseconds(0));
  EXPECT_TRUE(last.status.ok()) << last.status;
}

}  // namespace cancel_test
}  // namespace braid
