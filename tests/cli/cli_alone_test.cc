// Commands whose services run in the process.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_fixture.h"

namespace braid {
namespace cli_alone_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliAloneTest : public CliFixture {
 protected:
  // Returns the path of an mpirun that knows its version, and executes `script` when it is to start
  // ranks.
  std::string Mpirun(const std::string& script) {
    const std::string path = File(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit\n" + script);
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
};
INSTANTIATE_TEST_SUITE_P(Embedded, CliAloneTest, ::testing::Values(false));

TEST_P(CliAloneTest, ValidatesAndBranchesADecayFromAStableRun) {
  ASSERT_EQ(Submit({Corpus(), "--set", "pack.heldout_fraction=0.1"}).exit_code, 0);
  ASSERT_EQ(Train({"--data", "job-000001", "--steps", "8", "--threads", "1", "--schedule", "wsd",
                   "--decay", "2", "--validate-every", "4", "--set", "checkpoint.every_steps=2",
                   "--set", "checkpoint.keep_every_steps=2"})
                .exit_code,
            0)
      << Contents(root_ / "err");
  EXPECT_THAT(Braid({"status", "run-000001"}).output, HasSubstr("at the last validation, best"));
  ExpectError(Braid({"train", "--branch", "run-000001@3"}), 3,
              {"run-000001 has no checkpoint of step 3; the nearest are 2 and 4"});
  ExpectError(Braid({"train", "--branch", "run-000001@8"}), 1, {"got step 8, expected 1 to 6"});
  const Outcome branch =
      Braid({"train", "--branch", "run-000001@4", "--decay", "0.2", "--wait", "--json"});
  ASSERT_EQ(branch.exit_code, 0) << branch.errors;
  const auto run = nlohmann::json::parse(branch.output);
  EXPECT_EQ(run["spec"]["num_steps"], "5");
  EXPECT_EQ(run["latest"]["step"], "5");
  EXPECT_EQ(run["attempts"], 1);
}

TEST_P(CliAloneTest, TrainsOnAMixtureAndExplainsIt) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  const auto job = nlohmann::json::parse(Braid({"status", "job-000001", "--json"}).output);
  const std::string dataset = job["result"]["dataset_dir"];
  ASSERT_EQ(Submit({Corpus("second.jsonl"), "--set", "pack.sequence_length=32"}).exit_code, 0);
  const std::string mixture =
      "datasets=[{dataset: \"job-000001\", share: .5}, {dataset: \"job-000002\", share: .5}]";
  ExpectError(Train({"--set", mixture}), 2, {"datasets[1]", "sequence_length 32", "expected 64"});
  ASSERT_EQ(
      Braid({"submit", Corpus("third.jsonl"), "--wait", "--tokenizer", dataset + "/tokenizer.model",
             "--set", "pack.sequence_length=64", "--set", "seed=5"})
          .exit_code,
      0)
      << Contents(root_ / "err");
  const std::string fitting =
      "datasets=[{dataset: \"job-000001\", share: .5}, {dataset: \"job-000003\", share: .5}]";
  ASSERT_EQ(Train({"--set", fitting, "--steps", "4", "--threads", "1"}).exit_code, 0)
      << Contents(root_ / "err");
  const Outcome step = Braid({"explain", "run-000001", "--step", "2", "--json"});
  ASSERT_EQ(step.exit_code, 0) << step.errors;
  const auto explained = nlohmann::json::parse(step.output);
  ASSERT_EQ(explained["datasets"].size(), 2u);
  for (const auto& part : explained["datasets"]) EXPECT_EQ(part["instances"].size(), 2u);
  const std::string document = explained["datasets"][1]["instances"][0]["spans"][0]["document"];
  EXPECT_EQ(Braid({"explain", "run-000001", "--document", document}).exit_code, 0)
      << Contents(root_ / "err");
  ExpectError(Braid({"explain", "run-000001", "--instance", "0"}), 2, {"--instance", "job-000001"});
  ExpectError(Braid({"explain", "run-000001", "--document", "none"}), 3,
              {"job-000001: unknown document", "job-000003: unknown document"});
}

// One corpus in two orders: a document is in both datasets.
TEST_P(CliAloneTest, ExplainsADocumentInEveryDatasetOfAMixture) {
  const std::string corpus = Corpus();
  for (const char* const order : {"similarity", "random"}) {
    ASSERT_EQ(Submit({corpus, "--order", order}).exit_code, 0) << Contents(root_ / "err");
  }
  const std::string mixture =
      "datasets=[{dataset: \"job-000001\", share: .5}, {dataset: \"job-000002\", share: .5}]";
  const Outcome trained = Train({"--set", mixture, "--steps", "6", "--threads", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(trained.errors, Not(HasSubstr("braid: note"))) << "one of the orders is random";
  const auto explain = [&](Arguments arguments) {
    arguments.insert(arguments.begin(), {"--json", "explain"});
    const Outcome outcome = Braid(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output);
  };
  const auto step = explain({"run-000001", "--step", "1"});
  const std::string document = step["datasets"][1]["instances"][0]["spans"][0]["document"];
  const auto both = explain({"run-000001", "--document", document});
  ASSERT_EQ(both["datasets"].size(), 2u) << both.dump(1);
  for (int d = 0; d < 2; ++d) {
    const std::string job = "job-00000" + std::to_string(d + 1);
    EXPECT_EQ(both["datasets"][d]["job"], job);
    EXPECT_EQ(both["datasets"][d], explain({job, "--run", "run-000001", "--document", document}));
  }
  bool trained_in_step_1 = false;
  for (const auto& span : both["datasets"][1]["spans"]) {
    for (const int64_t each : span["steps"]) trained_in_step_1 |= each == 1;
  }
  EXPECT_TRUE(trained_in_step_1) << both.dump(1);
  EXPECT_THAT(Braid({"explain", "run-000001", "--document", document}).output,
              AllOf(HasSubstr("dataset of job-000001"), HasSubstr("dataset of job-000002")));
}

TEST_P(CliAloneTest, StatusOfARunWithDamagedSettingsFails) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  ASSERT_EQ(Train({"--data", "job-000001", "--steps", "2", "--threads", "1"}).exit_code, 0)
      << Contents(root_ / "err");
  EXPECT_EQ(Braid({"status", "run-000001"}).exit_code, 0);
  const fs::path settings = fs::path(home()) / "runs/run-000001/run.textproto";
  std::string text = Contents(settings);
  text[text.size() / 2] ^= 1;
  std::ofstream(settings, std::ios::binary) << text;
  for (const Arguments& status :
       {Arguments{"status", "run-000001"}, Arguments{"--json", "status", "run-000001"}}) {
    const Outcome outcome = Braid(status);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr("braid: run-000001: its settings are unreadable"),
                                      HasSubstr("run.textproto")));
    EXPECT_THAT(outcome.output, HasSubstr("SUCCEEDED")) << "what is known is shown";
    EXPECT_THAT(outcome.output, Not(HasSubstr("of 0")));
  }
}

TEST_P(CliAloneTest, ARelativeHomeIsTheSameFromEveryDirectory) {
  const std::string corpus = Corpus();
  TestProgram submit({BRAID_BIN_DIR "/braid", "--home", "home", "submit", corpus, "--wait",
                      "--vocab-size", "300", "--sequence-length", "64"},
                     {.directory = root_});
  ASSERT_EQ(submit.Wait(), 0) << submit.err();
  const Outcome trained = Train({"--data", "job-000001", "--steps", "2", "--threads", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const Outcome explained = Braid({"explain", "run-000001", "--step", "1"});
  EXPECT_EQ(explained.exit_code, 0) << explained.errors;
}

TEST_P(CliAloneTest, NamesAWorkingDirectoryThatNoPathCanBeRelativeTo) {
  const std::string deleted = (root_ / "deleted").string(), latin1 = (root_ / "caf\xe9").string();
  for (const std::string command : {"submit corpus.jsonl", "generate model --prompt x"}) {
    const std::string braid = "exec " BRAID_BIN_DIR "/braid --home " + home() + " " + command;
    ExpectError(Run({"/bin/sh", "-c",
                     "mkdir " + deleted + "; cd " + deleted + "; rmdir " + deleted + "; " + braid}),
                2, {"cannot find the working directory", "change to another"});
    ExpectError(Run({"/bin/sh", "-c", "mkdir -p " + latin1 + "; cd " + latin1 + "; " + braid}), 2,
                {"caf\\xe9/", "expected UTF-8"});
  }
}

// Sends SIGKILL to all processes whose command lines contain `text`, until there are none.
void KillProcessesOf(const std::string& text) {
  const auto kill_once = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 1 || Contents(entry.path() / "cmdline").find(text) == std::string::npos) continue;
      count += kill(pid, SIGKILL) == 0;
    }
    return count == 0;
  };
  EXPECT_TRUE(WaitUntil(kill_once));
}

// braid restarts such a run itself, but a script cannot know whether it has done so already.
TEST_P(CliAloneTest, ResumesARunWhoseProcessesWereKilled) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  Arguments train = {"train", "--data", "job-000001", "--steps", "3000", "--threads", "1"};
  for (const char* setting : {"d_model=16", "num_layers=1", "num_heads=2", "d_ff=32"}) {
    train.insert(train.end(), {"--set", std::string("model.") + setting});
  }
  ASSERT_EQ(Braid(train).exit_code, 0) << Contents(root_ / "err");
  const fs::path run = fs::path(home()) / "runs/run-000001";
  ASSERT_TRUE(WaitUntil([&] { return !Contents(run / "metrics.jsonl").empty(); }));
  KillProcessesOf(run.string());
  ASSERT_FALSE(fs::exists(run / "exit.json")) << "it finished before it was killed";
  const Outcome resumed = Braid({"resume", "run-000001", "--wait"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_THAT(resumed.output, HasSubstr("SUCCEEDED"));
}

TEST_P(CliAloneTest, JobFailsOnAFullDiskAndResumes) {
  // A file size limit stands for a full disk: the write fails either way.
  const std::string corpus = Corpus();
  ExpectError(Submit({corpus}, 512 << 10), 1, {"job-000001", "document_frequencies", "ulimit -f"});
  EXPECT_EQ(Braid({"resume", "job-000001", "--wait"}).exit_code, 0) << Contents(root_ / "err");
  // The result equals that of an undisturbed job.
  const std::string mended = PackManifest();
  EXPECT_THAT(mended, HasSubstr("instances.bin"));
  fs::rename(home(), root_ / "mended");
  ASSERT_EQ(Submit({corpus}).exit_code, 0) << Contents(root_ / "err");
  EXPECT_EQ(PackManifest(), mended);
}

// An interrupted job is still in the queue, so it delays the jobs of later commands.
TEST_P(CliAloneTest, AJobNamesTheInterruptedJobThatItWaitsFor) {
  const std::string corpus = Corpus();
  const auto interrupt_waiting = [&](Arguments command) {
    command.insert(command.begin(), {BRAID_BIN_DIR "/braid", "--home", home()});
    TestProgram program(command);
    EXPECT_TRUE(WaitUntil([&] { return program.err().find("no answer") != std::string::npos; }));
    program.Signal(SIGINT);
    EXPECT_EQ(program.Wait(), 130) << program.err();
  };
  // The job waits, since no embedding server answers.
  interrupt_waiting(
      {"submit", corpus, "--vocab-size", "300", "--embedding-servers", "127.0.0.1:1"});
  const Arguments small = {
      BRAID_BIN_DIR "/braid", "--home", home(), "submit", corpus, "--vocab-size", "300",
      "--sequence-length",    "64"};
  TestProgram later(small);
  EXPECT_TRUE(
      WaitUntil([&] { return later.err().find("waits for job-000001 (") != std::string::npos; }));
  EXPECT_EQ(Braid({"cancel", "job-000001"}).exit_code, 0);
  EXPECT_EQ(later.Wait(), 0) << later.err();

  interrupt_waiting({"resume", "job-000001"});
  EXPECT_EQ(Braid({"cancel", "job-000001"}).output, "job-000001: canceled\n");
}

TEST_P(CliAloneTest, ListsAreJsonWhereAsked) {
  const auto json = [&](Arguments arguments) {
    arguments.insert(arguments.begin(), "--json");
    const Outcome outcome = Braid(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  };
  EXPECT_THAT(json({"model", "describe", "--list"}), ::testing::Contains("tiny/8E"));
  EXPECT_EQ(json({"token", "list"}), nlohmann::json::array());
  const nlohmann::json created = json({"token", "create", "--name", "ann", "--role", "submitter"});
  ASSERT_TRUE(created.is_object());
  EXPECT_EQ(created.value("name", ""), "ann");
  EXPECT_NE(created.value("token", ""), "");
  const nlohmann::json tokens = json({"token", "list"});
  ASSERT_EQ(tokens.size(), 1u) << tokens;
  EXPECT_EQ(tokens[0]["name"], "ann");
  EXPECT_EQ(tokens[0]["role"], "submitter");
  EXPECT_EQ(tokens[0]["expires_at"], 0);
  EXPECT_EQ(tokens[0]["expired"], false);
  EXPECT_FALSE(tokens[0].contains("hash"));
  EXPECT_EQ(json({"token", "revoke", "ann"}), nlohmann::json({{"revoked", 1}}));
}

// The mpirun of this test sends the Ctrl-C itself, once doctor waits for it.
TEST_P(CliAloneTest, CtrlCAtDoctorEndsTheRanksAndLeavesNoDirectory) {
  const fs::path shared = root_ / "shared", started = root_ / "started";
  const std::string mpirun =
      Mpirun("echo \"$@\" > '" + started.string() + "'\nkill -INT $PPID\nexec sleep 600\n");
  fs::create_directory(shared);
  ExpectError(Braid({"--mpirun", mpirun, "doctor", "--shared", shared.string()}), 130,
              {"interrupted"});
  EXPECT_THAT(Contents(started), HasSubstr((shared / "doctor-").string())) << "made and removed";
  EXPECT_TRUE(fs::is_empty(shared));
}

TEST_P(CliAloneTest, TrainingPrintsAFailedRunAsJsonToo) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  const std::string mpirun = Mpirun("exit 1\n");
  const Outcome failed = Braid({"--mpirun", mpirun, "--json", "train", "--data", "job-000001",
                                "--segment-length", "16", "--steps", "2", "--threads", "1", "--set",
                                "supervision.max_restarts=0", "--wait"});
  ExpectError(failed, 1, {"run-000001 failed: "});
  const auto run = nlohmann::json::parse(failed.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(run.is_object()) << failed.output;
  EXPECT_EQ(run.value("id", ""), "run-000001");
  EXPECT_EQ(run.value("state", ""), "RUN_FAILED");
  EXPECT_TRUE(failed.output.ends_with("\n}\n")) << "indented JSON ends with one newline";
}

TEST_P(CliAloneTest, ProgramsOfThisMachineAreRefusedWithAServer) {
  ExpectError(Braid({"--server", "127.0.0.1:1", "--mpirun", "/opt/mpirun", "runs"}), 2,
              {"--mpirun", "its own programs"});
}

}  // namespace cli_alone_test
}  // namespace braid
