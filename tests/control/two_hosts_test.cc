// Two hosts over one home, on file systems that hosts share: no launch is lost and none is doubled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "base/database_journal.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_store.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/program.h"

namespace braid {
namespace two_hosts_test {

using ::testing::HasSubstr;

class TwoHostsTest : public testing::Test {
 protected:
  TwoHostsTest() { std::filesystem::create_symlink(BRAID_SHARED_FILE_SYSTEM, preloaded_); }

  TestProgramOptions Faults(const std::string& faults) const {
    return {.variables = {"LD_PRELOAD=" + preloaded_.string(), "BRAID_SHARED=" + home_.string(),
                          "BRAID_SHARED_FAULTS=" + faults,
                          // The preloaded library comes before the run-time of a sanitizer.
                          "ASAN_OPTIONS=verify_asan_link_order=0"}};
  }
  std::unique_ptr<TestProgram> Host(const std::string& faults, int num_requests) const {
    return std::make_unique<TestProgram>(
        std::vector<std::string>{BRAID_STORE_HOST, home_.string(), std::to_string(num_requests)},
        Faults(faults));
  }

  // Checks that both hosts got one run and one job for each of the requests.
  void CheckLists(const TestProgram& first, const TestProgram& second, int num_requests,
                  const std::filesystem::path& state = {}) const {
    std::map<std::string, std::string> answers;
    for (const std::string& output : {first.out(), second.out()}) {
      std::istringstream lines(output);
      for (std::string request, run, job; lines >> request >> run >> job;) {
        const std::string answer = run + " " + job;
        EXPECT_EQ(answers.try_emplace(request, answer).first->second, answer) << request;
      }
    }
    EXPECT_EQ(std::ssize(answers), num_requests);
    std::set<std::string> distinct;
    for (const auto& [request, answer] : answers) distinct.insert(answer);
    EXPECT_EQ(std::ssize(distinct), num_requests);
    EXPECT_EQ(std::ssize(RunStore::Open(home_, state).value()->List().value()), num_requests);
    EXPECT_EQ(std::ssize(JobStore::Open(state.empty() ? home_ : state).value()->List().value()),
              num_requests);
  }

  void TestFaults(const std::string& faults) const {
    constexpr int kRequests = 500;  // a run and a job each
    const auto first = Host(faults, kRequests);
    const auto second = Host(faults, kRequests);
    // A host that is lost in the middle leaves nothing that blocks the others.
    const auto lost = Host(faults, kRequests);
    EXPECT_NE(lost->WaitForOutput("request-9 ", "\n", std::chrono::seconds(120)), "");
    lost->Kill();
    EXPECT_EQ(first->Wait(std::chrono::seconds(400)), 0) << first->err();
    EXPECT_EQ(second->Wait(std::chrono::seconds(400)), 0) << second->err();
    CheckLists(*first, *second, kRequests);
    EXPECT_GE(Count(), 2 * kRequests + 9);
    EXPECT_LE(Count(), 3 * kRequests);
  }

  // Runs two programs with one --state, the first of them without locks in the home.
  void TestState(const std::string& second_faults) const;

  // Returns how often the hosts increased the counter.
  int64_t Count() const {
    int64_t count = 0;
    std::ifstream(home_ / "counter", std::ios::binary)
        .read(reinterpret_cast<char*>(&count), sizeof(count));
    return count;
  }

  ScratchDirectory scratch_;
  // As the kernel reports it: the preloaded library compares the names of open files.
  const std::filesystem::path home_ = (scratch_ / "home").lexically_normal();
  // LD_PRELOAD is split at spaces, which the build directory may have.
  const std::filesystem::path preloaded_ = scratch_ / "preloaded.so";
};

TEST_F(TwoHostsTest, LaunchOnAFileSystemWithoutSharedMappings) { TestFaults("mmap"); }

TEST_F(TwoHostsTest, LaunchOnAFileSystemWithoutFlock) { TestFaults("type mmap flock"); }

TEST_F(TwoHostsTest, AFileSystemWithoutAnyLocksIsRefused) {
  const auto host = Host("type mmap flock fcntl", 1);
  EXPECT_EQ(host->Wait(), 1);
  EXPECT_THAT(host->err(), HasSubstr("nfs does not lock files"));
  EXPECT_THAT(host->err(), HasSubstr("--state"));
}

TEST_F(TwoHostsTest, ADatabaseMovesBetweenTheTwoKindsOfFileSystems) {
  {
    const auto runs = RunStore::Open(home_).value();  // a local file system: a write-ahead log
    const auto jobs = JobStore::Open(home_).value();
    ASSERT_OK(runs->Create("local", "spec", 1));
    ASSERT_OK(jobs->Submit({}, "local"));
  }
  const auto host = Host("mmap", 2);
  EXPECT_EQ(host->Wait(), 0) << host->err();
  EXPECT_FALSE(std::filesystem::exists(home_ / "runs.sqlite-wal"));
  EXPECT_EQ(RunStore::Open(home_).value()->List()->size(), 3u);
  EXPECT_EQ(JobStore::Open(home_).value()->List()->size(), 3u);
}

void TwoHostsTest::TestState(const std::string& second_faults) const {
  const std::filesystem::path state = scratch_ / "state";
  constexpr int kRequests = 500;  // a run and a job each
  const auto with_state = [&](const std::string& faults) {
    TestProgramOptions options = Faults(faults);
    options.variables.push_back("BRAID_STATE=" + state.string());
    return options;
  };
  const std::vector<std::string> host = {BRAID_STORE_HOST, home_.string(),
                                         std::to_string(kRequests), state.string()};
  // The home may have locks for one process when it has none for another (ENOLCK for a moment).
  TestProgram first(host, with_state("type mmap flock fcntl"));
  TestProgram second(host, with_state(second_faults));
  EXPECT_EQ(first.Wait(std::chrono::seconds(400)), 0) << first.err();
  EXPECT_EQ(second.Wait(std::chrono::seconds(400)), 0) << second.err();
  CheckLists(first, second, kRequests, state);
  EXPECT_EQ(Count(), 2 * kRequests);
  EXPECT_FALSE(std::filesystem::exists(home_ / "jobs.sqlite"));
}

// With --state, processes of one host exclude each other without any lock of the home.
TEST_F(TwoHostsTest, StateOnALocalDiskReplacesTheLocksOfTheHome) {
  TestState("type mmap flock fcntl");
}

TEST_F(TwoHostsTest, StateExcludesAProcessForWhichTheHomeHasLocks) { TestState("mmap"); }

// A corpus job and a run: every lock that either takes works without those of the home.
TEST_F(TwoHostsTest, StateOnALocalDiskIsEnoughForAJobAndARun) {
  const std::filesystem::path corpus = scratch_ / "corpus.jsonl";
  {
    std::ofstream out(corpus);
    for (int i = 0; i < 200; ++i) {
      out << R"({"text": "document )" << i * i << " of a corpus, with word" << i % 17 << " and word"
          << i % 23 << R"( in it"})"
          << "\n";
    }
  }
  const auto braid = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {BRAID_BIN_DIR "/braid", "--home", home_.string(),
                                         "--state", (scratch_ / "state").string()});
    TestProgram program(std::move(arguments), Faults("type mmap flock fcntl"));
    EXPECT_EQ(program.Wait(std::chrono::seconds(300)), 0) << program.err();
    return program.out();
  };
  braid({"submit", corpus.string(), "--vocab-size", "300", "--sequence-length", "64", "--wait"});
  braid({"train", "--data", "job-000001", "--preset", "tiny/8E", "--ranks", "1", "--threads", "1",
         "--batch", "2", "--steps", "2", "--wait"});
  EXPECT_THAT(braid({"runs"}), HasSubstr("SUCCEEDED"));
}

TEST_F(TwoHostsTest, TheChoiceOfJournalIsExplained) {
  std::filesystem::create_directories(home_);
  ASSERT_OK_AND_ASSIGN(const DatabaseJournal journal, ChooseJournal(home_));
  EXPECT_THAT(journal.reason, HasSubstr(journal.write_ahead ? "write-ahead log" : "rollback"));
  EXPECT_TRUE(std::filesystem::is_empty(home_)) << "the probe is removed";
}

}  // namespace two_hosts_test
}  // namespace braid
