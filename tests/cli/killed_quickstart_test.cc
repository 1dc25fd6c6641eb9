// What `braid quickstart` leaves in its work directory, also when it is killed, and what it
// advises.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "tests/cli/cli_fixture.h"

namespace braid {
namespace killed_quickstart_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::set<std::string> NamesIn(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.insert(entry.path().filename());
  }
  return names;
}

class KilledQuickstartTest : public CliFixture {
 protected:
  // Runs a braid that is installed with `script` as the program that gathers text.
  Outcome QuickstartGatheringWith(const std::string& script) {
    const fs::path braid = root_ / "bin/braid";
    fs::create_directories(root_ / "bin");
    fs::create_directories(root_ / "share/braid");
    std::error_code other_file_system;
    if (!fs::exists(braid)) {
      fs::create_hard_link(BRAID_BIN_DIR "/braid", braid, other_file_system);
      if (other_file_system) fs::copy_file(BRAID_BIN_DIR "/braid", braid);
    }
    File("share/braid/gather_text.py", script);
    return Run({braid.string(), "quickstart", "--workdir", workdir().string()});
  }

  fs::path workdir() const { return root_ / "work"; }
};
INSTANTIATE_TEST_SUITE_P(Embedded, KilledQuickstartTest, ::testing::Values(false));

TEST_P(KilledQuickstartTest, HalfOfACorpusIsRemovedByTheNextCommand) {
  const Outcome killed = QuickstartGatheringWith(
      "import os, signal, sys, time\n"
      "open(sys.argv[1], 'w').write('{\"text\": \"half\"}\\n')\n"
      "os.kill(os.getppid(), signal.SIGKILL)\n"
      "time.sleep(60)\n");
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.errors;
  EXPECT_THAT(NamesIn(workdir()), ElementsAre(StartsWith(".corpus.jsonl.braid-")));

  ExpectError(QuickstartGatheringWith("raise SystemExit('too little text')\n"), 1,
              {"too little text"});
  EXPECT_THAT(NamesIn(workdir()), ElementsAre());

  // The job fails, since no record can be read, but the file is complete.
  const Outcome gathered = QuickstartGatheringWith(
      "import sys\n"
      "open(sys.argv[1], 'w').write('not JSON\\n')\n"
      "print('1 document')\n");
  ExpectError(gathered, 1, {"1 document", "empty corpus"});
  EXPECT_THAT(NamesIn(workdir()), ElementsAre("corpus.jsonl", "home"));
  EXPECT_EQ(Contents(workdir() / "corpus.jsonl"), "not JSON\n");
}

TEST_P(KilledQuickstartTest, ResultsSpareFilesOfTheUserAndReplaceWhatAKilledCommandLeft) {
  for (const std::string name : {"report.html", "summary.json"}) {
    const std::string left = "work/." + name + ".braid-0123456789abcdef";
    fs::create_directories(root_ / left / "files");
    File(left + "/lock", "");
    File(left + "/files/" + name, "half");
    File("work/" + name + ".tmp", "of the user");
  }
  const Outcome outcome = Run({BRAID_BIN_DIR "/braid", "quickstart", "--corpus", Corpus(),
                               "--steps", "1", "--workdir", workdir().string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(NamesIn(workdir()), ElementsAre("home", "report.html", "report.html.tmp",
                                              "summary.json", "summary.json.tmp"));
  EXPECT_THAT(Contents(workdir() / "report.html"), HasSubstr("</html>"));
  EXPECT_EQ(Contents(workdir() / "report.html.tmp"), "of the user");
  EXPECT_EQ(Contents(workdir() / "summary.json.tmp"), "of the user");
}

// The advice for a job of the default home would not find it.
TEST_P(KilledQuickstartTest, AnInterruptNamesItsHome) {
  const fs::path directory = root_ / "my work";
  TestProgram quickstart({BRAID_BIN_DIR "/braid", "quickstart", "--corpus", Corpus(), "--steps",
                          "1", "--workdir", directory.string()});
  ASSERT_TRUE(WaitUntil([&] { return quickstart.err().find("ingest") != std::string::npos; }));
  quickstart.Signal(SIGINT);
  EXPECT_EQ(quickstart.Wait(), 130);
  EXPECT_THAT(quickstart.err(),
              AllOf(HasSubstr("braid: interrupted; repeat the same command to continue; "),
                    HasSubstr(" --home '" + (directory / "home").string() + "' runs\n"),
                    Not(HasSubstr("braid resume"))));
}

TEST_P(KilledQuickstartTest, NextCommandsCanBePastedIntoAShell) {
  fs::create_directories(root_ / "my work");
  File("my work/report.html", "");
  File("my work/summary.json",
       R"({"domains": {}, "dense_perplexity": 2, "moe_perplexity": 1,
           "gain_nats": {"similarity": 0, "random": 0},
           "heldout_gain_nats": {"similarity": 0, "random": 0},
           "adjacent_cosine": {"similarity": 0, "random": 0},
           "runs": {"moe-similarity": {"id": "run-000002"}}})");
  const Outcome complete =
      Run({BRAID_BIN_DIR "/braid", "quickstart", "--workdir", (root_ / "my work").string()});
  EXPECT_EQ(complete.exit_code, 0) << complete.errors;
  const std::string home = " --home '" + (root_ / "my work/home").string() + "' ";
  EXPECT_THAT(complete.output,
              AllOf(HasSubstr(home + "runs\n"), HasSubstr(home + "generate run-000002 --prompt ")));
}

}  // namespace killed_quickstart_test
}  // namespace braid
