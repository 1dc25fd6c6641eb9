// A deletion that is killed at any call that changes a file: the job or run is whole, or the next
// deletion completes it.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_store.h"
#include "server/retention/home_deletion.h"
#include "tests/base/file_calls.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/stored_home.h"

namespace braid {
namespace killed_deletion_test {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

class KilledDeletionTest : public testing::Test {
 protected:
  // Runs `work` in a child that is killed at its `last` call that changes a file of the home.
  // Returns whether it was killed; otherwise it has succeeded.
  bool KilledAt(int last, const StoredHome& home, const std::function<absl::Status()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      SkipFlushes();
      const std::string root = fs::canonical(home.path());
      int calls = 0;
      WatchFileCalls([&](const FileCall& call) {
        if (absl::StartsWith(call.path, root) && ++calls == last) {
          kill(getpid(), SIGKILL);
        }
        return 0;
      });
      const absl::Status done = work();
      WatchFileCalls(nullptr);
      if (!done.ok()) fprintf(stderr, "%s\n", done.ToString().c_str());
      _exit(done.ok() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) return true;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return false;
  }

  static absl::Status Delete(const StoredHome& home, const std::string& id) {
    const auto deletion = HomeDeletion::Open(home.path());
    if (!deletion.ok()) return deletion.status();
    return (*deletion)->Delete(id, {.by = "ann"}).status();
  }
  static absl::Status Finish(const StoredHome& home) {
    return HomeDeletion::Open(home.path()).value()->FinishInterrupted().status();
  }

  // Kills a deletion of `id(home)` at each of its calls. Returns the number of kills. `own` are the
  // directories that belong to it alone, which `add` has made with others.
  int KillEverywhere(const std::function<std::string(StoredHome&)>& add,
                     const std::set<std::string>& own, const std::set<std::string>& others) {
    int whole = 0, begun = 0;
    for (int last = 1; !HasFailure(); ++last) {
      SCOPED_TRACE("call " + std::to_string(last));
      StoredHome home;
      const std::string id = add(home);
      const std::vector<std::string> before = home.Directories();
      const bool killed = KilledAt(last, home, [&] { return Delete(home, id); });
      if (killed && std::ranges::count(home.Ids(), id) == 1) {
        ++whole;
        EXPECT_EQ(home.Directories(), before) << "the row is there, so all files are";
        EXPECT_OK(Finish(home));
        EXPECT_EQ(home.Directories(), before);
        EXPECT_OK(Delete(home, id));
      } else if (killed) {
        ++begun;
        // Killed while it completes it, too.
        KilledAt(1 + last % 7, home, [&] { return Finish(home); });
        EXPECT_OK(Finish(home));
      }
      EXPECT_EQ(std::ranges::count(home.Ids(), id), 0);
      const std::vector<std::string> left = home.Directories();
      EXPECT_EQ(std::set<std::string>(left.begin(), left.end()), others);
      EXPECT_OK(Finish(home));
      EXPECT_THAT(JobDeletions::Open(home.path()).value()->Unfinished().value(), IsEmpty());
      EXPECT_THAT(RunStore::Open(home.path()).value()->UnfinishedDeletions().value(), IsEmpty());
      if (!killed) {
        EXPECT_GE(whole, 3) << "kills before the row was deleted";
        EXPECT_GE(begun, 10) << "kills after it";
        EXPECT_EQ(before.size(), own.size() + others.size());
        return whole + begun;
      }
    }
    return 0;
  }
};

TEST_F(KilledDeletionTest, AJobIsWholeOrItsDeletionIsCompleted) {
  const int kills = KillEverywhere(
      [](StoredHome& home) {
        home.AddJob({.outputs = {"i1", "p2"}});
        const std::string id = home.AddJob({.outputs = {"i1", "t1", "p1"}});
        fs::create_directories(home.Output("e1").string() + ".tmp");
        return id;
      },
      {"store/tokenize-1111111111111111", "store/pack-1111111111111111"},
      {"store/ingest-1111111111111111", "store/pack-2222222222222222",
       "store/embed-1111111111111111.tmp"});
  RecordProperty("kills", kills);
}

TEST_F(KilledDeletionTest, ARunIsWholeOrItsDeletionIsCompleted) {
  const int kills = KillEverywhere(
      [](StoredHome& home) {
        home.AddJob({.outputs = {"p1"}});
        home.AddRun({.dataset = home.Output("p1")});
        return home.AddRun({.dataset = home.Output("p1")});
      },
      {"runs/run-000002"}, {"store/pack-1111111111111111", "runs/run-000001"});
  RecordProperty("kills", kills);
}

}  // namespace killed_deletion_test
}  // namespace braid
