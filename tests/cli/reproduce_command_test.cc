// `braid reproduce` on a small scale: real corpus jobs, training runs and evaluations, with too few
// steps for conclusive results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/reproduce_fixture.h"

namespace braid {
namespace reproduce_command_test {

namespace fs = std::filesystem;
using nlohmann::json;
using reproduce_fixture::WriteCorpus;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReproduceCommandTest : public reproduce_fixture::ReproduceFixture {};

void ExpectNumbers(const json& reproduction) {
  ASSERT_EQ(reproduction["claims"].size(), 10);
  EXPECT_EQ(reproduction["runs"].size(), 14);
  for (const json& run : reproduction["runs"]) {
    EXPECT_TRUE(run["training_loss"].is_number()) << run;
    EXPECT_TRUE(run["heldout_loss"].is_number()) << run;
    EXPECT_GT(run["heldout_bits_per_byte"], 0) << run;
  }
  for (const json& claim : reproduction["claims"]) {
    for (const json& part : claim["parts"]) {
      const bool may_be_missing = !part.contains("rule");  // the MoE need not reach the dense loss
      EXPECT_TRUE(may_be_missing || part.contains("effect")) << claim["number"] << part;
    }
  }
}

TEST_F(ReproduceCommandTest, TestsEveryClaimAndReusesResults) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 2'000'000, /*labeled=*/true);
  const Arguments command = {"reproduce", corpus.string(), "--steps",
                             "10",        "--output",      (root_ / "result").string(),
                             "--json"};
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  json reproduction = json::parse(first.output);
  ExpectNumbers(reproduction);
  EXPECT_EQ(reproduction["domains"].size(), 3);
  EXPECT_EQ(reproduction["num_steps"], 10);
  EXPECT_THAT(reproduction["command"].get<std::string>(),
              HasSubstr("--output " + (root_ / "result").string()));
  EXPECT_EQ(Contents(root_ / "result" / "reproduction.json"), first.output);
  EXPECT_THAT(Contents(root_ / "result" / "reproduction.html"),
              AllOf(HasSubstr("</html>"), HasSubstr("kitchen")));

  const Outcome again = Run(command);
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  json repeated = json::parse(again.output);
  EXPECT_GE(repeated["seconds"], reproduction["seconds"]);
  repeated.erase("seconds");
  reproduction.erase("seconds");
  EXPECT_EQ(repeated, reproduction);
  EXPECT_EQ(NumRuns(), 14);

  // Other text in the file of that name is another experiment.
  EXPECT_EQ(NumOf("jobs"), 2);
  std::ofstream(corpus, std::ios::app) << R"({"text": "one more", "domain": "kitchen"})"
                                       << "\n";
  const auto changed = Start(command);
  WaitForRun("run-000015");
  changed->Signal(SIGKILL);
  EXPECT_EQ(Finish(*changed).exit_code, 128 + SIGKILL);
  EXPECT_EQ(NumOf("jobs"), 4);
}

TEST_F(ReproduceCommandTest, ContinuesAfterAKillAndClustersUnlabeledText) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 2'000'000, /*labeled=*/false);
  const Arguments command = {"reproduce", corpus.string(), "--steps",
                             "10",        "--arms",        "dense,moe,prefix"};
  const auto interrupted = Start(command);
  WaitForRun("run-000001");
  interrupted->Signal(SIGINT);
  const Outcome left = Finish(*interrupted);
  EXPECT_EQ(left.exit_code, 130);
  EXPECT_THAT(left.errors, HasSubstr("repeat the command"));

  const auto killed = Start(command);
  WaitForRun("run-000003");
  killed->Signal(SIGKILL);
  EXPECT_EQ(Finish(*killed).exit_code, 128 + SIGKILL);
  EXPECT_LT(NumRuns(), 5);

  const Outcome resumed = Run(command);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(NumRuns(), 5);
  EXPECT_THAT(resumed.errors, HasSubstr("8 clusters of the document embeddings"));
  EXPECT_THAT(resumed.output,
              AllOf(HasSubstr("10. "), HasSubstr("INCONCLUSIVE"), HasSubstr("reproduction.html")));
}

TEST_F(ReproduceCommandTest, ReportsUnsuitableCorpora) {
  const fs::path corpus = WriteCorpus(root_ / "small.jsonl", 50'000, /*labeled=*/true);
  for (const bool dry_run : {false, true}) {
    Arguments command = {"reproduce", corpus.string(), "--quick"};
    if (dry_run) command.push_back("--dry-run");
    const Outcome small = Run(command);
    EXPECT_EQ(small.exit_code, 1);
    EXPECT_THAT(small.errors, HasSubstr("kB of text, expected at least 1.3 MB"));
  }
  EXPECT_EQ(NumRuns(), 0);
  EXPECT_EQ(Run({"reproduce", (root_ / "nothing").string()}).exit_code, 3);
  EXPECT_FALSE(fs::exists(home() + "/reproductions"));
}

TEST_F(ReproduceCommandTest, LocksTheExperiment) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 2'000'000, /*labeled=*/true);
  const fs::path output = root_ / "result";
  fs::create_directories(output);
  auto lock = FileLock::TryTake(output / "reproduction.lock");
  ASSERT_TRUE(lock.ok() && lock->has_value());
  const Outcome second =
      Run({"reproduce", corpus.string(), "--steps", "20", "--output", output.string()});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.errors, HasSubstr("is using"));
}

TEST_F(ReproduceCommandTest, DryRunPrintsThePlan) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 4'000'000, /*labeled=*/true);
  const Outcome plan = Run({"reproduce", corpus.string(), "--dry-run", "--seeds", "2"});
  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_THAT(plan.output, HasSubstr("quick: 28 runs of 600 steps"));
  const Outcome other = Run({"reproduce", corpus.string(), "--dry-run", "--embedder", "static",
                             "--set", "deduplicate.disabled=true"});
  EXPECT_EQ(other.exit_code, 0) << other.errors;
  const Outcome tasks = Run({"reproduce", corpus.string(), "--dry-run", "--set",
                             "decontaminate.paths=tasks=" + (root_ / "missing").string()});
  EXPECT_NE(tasks.exit_code, 0);
  EXPECT_THAT(tasks.errors, HasSubstr((root_ / "missing").string()));
  EXPECT_EQ(NumRuns(), 0);
}

TEST_F(ReproduceCommandTest, RejectsInvalidArguments) {
  EXPECT_EQ(Run({"reproduce", "--quick", "--full"}).exit_code, 2);
  EXPECT_EQ(Run({"reproduce", "--seeds", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"reproduce", "--split-bytes", "10"}).exit_code, 2);
  EXPECT_THAT(Run({"reproduce", ""}).errors, HasSubstr("PATH: got \"\""));
  const Outcome fixed = Run({"reproduce", "--set", "pack.sequence_length=64"});
  EXPECT_EQ(fixed.exit_code, 2);
  EXPECT_THAT(fixed.errors, HasSubstr("got pack, which the experiment sets"));
  const Outcome remote = Run({"--server", "127.0.0.1:1", "reproduce"});
  EXPECT_NE(remote.exit_code, 0);
  EXPECT_THAT(remote.errors, HasSubstr("expected files or directories of the server"));
}

}  // namespace reproduce_command_test
}  // namespace braid
