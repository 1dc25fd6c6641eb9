// `braid reproduce` on a small scale: real corpus jobs, training runs and evaluations, with too few
// steps for conclusive results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "tests/program.h"

namespace braid {
namespace reproduce_command_test {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + the signal's number when one ended the program
  std::string output, errors;
};

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Words of one domain, frequent ones first.
class Vocabulary {
 public:
  Vocabulary(char first_letter, std::mt19937_64& random) {
    for (int i = 0; i < 600; ++i) {
      std::string word(1, first_letter);
      for (int length = 2 + i % 5; length > 0; --length) word += "aeioulnrst"[random() % 10];
      words_.push_back(word);
    }
  }
  const std::string& Draw(std::mt19937_64& random) const {
    const double uniform = std::uniform_real_distribution<double>(0, 1)(random);
    return words_[static_cast<size_t>(uniform * uniform * static_cast<double>(words_.size()))];
  }

 private:
  std::vector<std::string> words_;
};

std::string Document(const Vocabulary& vocabulary, size_t bytes, std::mt19937_64& random) {
  std::string text;
  while (text.size() < bytes) {
    text += vocabulary.Draw(random);
    text += random() % 12 == 0 ? ".\n" : " ";
  }
  return text;
}

// Three domains of different sizes, `bytes` in all; `labeled` records name them.
fs::path WriteCorpus(const fs::path& path, size_t bytes, bool labeled) {
  std::mt19937_64 random(1);
  const std::vector<Vocabulary> vocabularies = {{'b', random}, {'k', random}, {'w', random}};
  const std::vector<std::string> names = {"letters", "kitchen", "weather"};
  std::ofstream file(path, std::ios::binary);
  for (size_t written = 0; written < bytes;) {
    const size_t domain = std::min<size_t>(random() % 5, 2);
    json record = {{"text", Document(vocabularies[domain], 200 + random() % 500, random)}};
    if (labeled) record["domain"] = names[domain];
    const std::string line = record.dump() + "\n";
    file << line;
    written += line.size();
  }
  return path;
}

class ReproduceCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "reproduce_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override {
    // Trainers of a killed command may still write.
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  std::unique_ptr<TestProgram> Start(Arguments arguments) const {
    arguments.insert(arguments.begin(), {BRAID_BIN_DIR "/braid", "--home", home()});
    return std::make_unique<TestProgram>(
        arguments, TestProgramOptions{.output = root_ / "out", .errors = root_ / "err"});
  }

  static Outcome Finish(TestProgram& program) {
    const int exit_code = program.Wait(std::chrono::seconds(600));
    return {exit_code, program.out(), program.err()};
  }

  Outcome Run(const Arguments& arguments) const { return Finish(*Start(arguments)); }

  // What `braid runs` or `braid jobs` lists.
  int NumOf(const std::string& kind) const {
    const Outcome listed = Run({kind, "--json"});
    const json all = json::parse(listed.output, nullptr, /*allow_exceptions=*/false);
    return all.contains(kind) ? static_cast<int>(all[kind].size()) : 0;
  }
  int NumRuns() const { return NumOf("runs"); }

  void WaitForRun(const std::string& id) const {
    const auto exists = [&] { return fs::exists(home() + "/runs/" + id); };
    ASSERT_TRUE(WaitUntil(exists, std::chrono::seconds(60))) << Contents(root_ / "err");
  }

  std::string home() const { return (root_ / "home").string(); }

  fs::path root_;
};

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
                             "20",        "--output",      (root_ / "result").string(),
                             "--json"};
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  json reproduction = json::parse(first.output);
  ExpectNumbers(reproduction);
  EXPECT_EQ(reproduction["domains"].size(), 3);
  EXPECT_EQ(reproduction["num_steps"], 20);
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
                             "20",        "--arms",        "dense,moe,prefix"};
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
}

// Two arms of another paper, from text to verdicts.
TEST_F(ReproduceCommandTest, TestsAnotherPaperWithSomeOfItsArms) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 800'000, /*labeled=*/true);
  const Arguments command = {"reproduce", corpus.string(),
                             "--paper",   "smoe-dropout",
                             "--arms",    "dense-dropout,smoe-dropout",
                             "--steps",   "10",
                             "--output",  (root_ / "result").string(),
                             "--json"};
  const fs::path left = root_ / "result/.reproduction.html.braid-0123456789abcdef";
  fs::create_directories(left);
  const std::vector<fs::path> of_user = {root_ / "result/reproduction.html.tmp",
                                         root_ / "result/reproduction.json.tmp",
                                         root_ / "result/seconds.tmp"};
  for (const fs::path& file : of_user) std::ofstream(file) << "of the user";
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_FALSE(fs::exists(left)) << "a killed command left it";
  for (const fs::path& file : of_user) EXPECT_EQ(Contents(file), "of the user") << file;
  const json reproduction = json::parse(first.output);
  EXPECT_EQ(reproduction["experiment"], "smoe-dropout");
  EXPECT_EQ(reproduction["runs"].size(), 2);
  EXPECT_NE(reproduction["datasets"]["random"], reproduction["datasets"]["repeated"]);
  ASSERT_EQ(reproduction["claims"].size(), 9);
  const json& claims = reproduction["claims"];
  EXPECT_TRUE(claims[1]["parts"][0]["effect"].is_number()) << claims[1];
  for (int doubling = 0; doubling < 4; ++doubling) {
    EXPECT_TRUE(claims[2]["parts"][doubling]["effect"].is_number()) << claims[2];
  }
  EXPECT_EQ(claims[3]["verdict"], "not measured");
  EXPECT_THAT(Contents(root_ / "result" / "reproduction.html"),
              AllOf(HasSubstr("Reproduction of SMoE-Dropout"), HasSubstr("smoe_dropout.md")));
  EXPECT_EQ(Run(command).exit_code, 0);
  EXPECT_EQ(NumRuns(), 2);
}

// Returns a directory with a few examples of the tasks of fine-tuning experiments.
fs::path WriteTasks(const fs::path& directory) {
  const auto write = [&](const std::string& path, int count, const auto& line) {
    fs::create_directories((directory / path).parent_path());
    std::ofstream file(directory / path, std::ios::binary);
    for (int i = 0; i < count; ++i) file << line(i);
  };
  const auto review = [](int i) {
    return (i % 2 ? "good film " : "bad film ") + std::to_string(i) + "\t" + std::to_string(i % 2) +
           "\n";
  };
  write("sst2/train.tsv", 60, review);
  write("sst2/dev.tsv", 12, review);
  const auto polarity = [](int i) {
    return std::string(i % 2 ? "\"2\",\"good " : "\"1\",\"bad ") + std::to_string(i);
  };
  write("amazon/test.csv", 8, [&](int i) { return polarity(i) + "\",\"as seen\"\n"; });
  write("yelp/test.csv", 8, [&](int i) { return polarity(i) + "\"\n"; });
  const auto problem = [](int i) {
    return (i == 0 ? "Question,Equation\n" : "") + std::string("Add number0 to number1 in case ") +
           std::to_string(i) + " ?," + (i % 2 ? "+" : "-") + " number0 number1\n";
  };
  write("mawps/train.csv", 60, problem);
  write("mawps/dev.csv", 8, problem);
  return directory;
}

// Base models, conversions, fine-tuning runs, scores on tasks with and without routing, verdicts.
TEST_F(ReproduceCommandTest, TestsAPaperOnFineTuning) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 800'000, /*labeled=*/true);
  const Arguments command = {"reproduce", corpus.string(),
                             "--paper",   "emoe",
                             "--tasks",   WriteTasks(root_ / "tasks").string(),
                             "--arms",    "initial,plain,emoe,learned-gate,copies",
                             "--steps",   "10",
                             "--output",  (root_ / "result").string(),
                             "--json"};
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const json reproduction = json::parse(first.output);
  ASSERT_EQ(reproduction["runs"].size(), 10);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(reproduction["runs"][i]["heldout_loss"].is_number());
  }
  for (size_t i = 2; i < 10; ++i) {
    const json& run = reproduction["runs"][i];
    ASSERT_FALSE(run["scores"].empty()) << run;
    EXPECT_GT(run["training_loss"], 0) << run;
    for (const json& score : run["scores"]) EXPECT_TRUE(score["answer_loss"].is_number()) << run;
  }
  const json& claims = reproduction["claims"];
  ASSERT_EQ(claims.size(), 12);
  for (const size_t claim : {0, 1, 2, 3, 4, 10}) {
    EXPECT_TRUE(claims[claim]["parts"][0]["effect"].is_number()) << claims[claim];
  }
  // All experts together are the dense model; with half of them it is another one.
  EXPECT_NE(claims[4]["parts"][0]["effect"], 0);
  EXPECT_TRUE(claims[4]["parts"][1]["effect"].is_number()) << claims[4];
  EXPECT_EQ(claims[6]["verdict"], "not measured");
  EXPECT_THAT(Contents(root_ / "result" / "reproduction.html"),
              AllOf(HasSubstr("Reproduction of EMoE"), HasSubstr("Fine-tuned models")));

  // Another paper and a repeated command find the base model and the plain runs.
  const Outcome again = Run(command);
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(json::parse(again.output)["claims"], claims);
  EXPECT_EQ(NumRuns(), 10);
  const Outcome other =
      Run({"reproduce", corpus.string(), "--paper", "molex", "--tasks", (root_ / "tasks").string(),
           "--arms", "plain,molex,random-layer", "--steps", "10", "--json"});
  ASSERT_EQ(other.exit_code, 0) << other.errors;
  EXPECT_EQ(NumRuns(), 14);
  const json parts = json::parse(other.output)["claims"][0]["parts"];
  EXPECT_TRUE(parts[0]["effect"].is_number()) << parts;  // plain minus molex
  EXPECT_FALSE(parts[1].contains("effect")) << parts;    // no frozen gate was trained
  EXPECT_TRUE(parts[2]["effect"].is_number()) << parts;  // random layers minus molex
  EXPECT_NE(parts[0]["effect"], parts[2]["effect"]);
  const json robust = json::parse(other.output)["claims"][3]["parts"];
  EXPECT_TRUE(robust[2]["effect"].is_number()) << robust;
}

TEST_F(ReproduceCommandTest, RefusesTasksThatAreMissingOrNotUsed) {
  const fs::path tasks = WriteTasks(root_ / "tasks");
  const auto errors = [&](Arguments more) {
    Arguments command = {"reproduce", (root_ / "corpus.jsonl").string()};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = Run(command);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.errors;
  };
  EXPECT_THAT(errors({"--paper", "emoe"}), HasSubstr("--tasks: got none"));
  EXPECT_THAT(errors({"--tasks", tasks.string()}), HasSubstr("which has no tasks"));
  fs::remove(tasks / "mawps/train.csv");
  EXPECT_THAT(errors({"--paper", "molex", "--tasks", tasks.string()}),
              HasSubstr("got no training file"));
  fs::remove(tasks / "yelp/test.csv");
  EXPECT_THAT(errors({"--paper", "emoe", "--tasks", tasks.string()}), HasSubstr("yelp/test.csv"));
}

TEST_F(ReproduceCommandTest, TestsTheQuestionOfOrder) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 1'500'000, /*labeled=*/true);
  const Outcome outcome = Run({"reproduce", corpus.string(), "--experiment", "order", "--arms",
                               "dense-16-document,dense-random-first", "--steps", "12", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json reproduction = json::parse(outcome.output);
  ASSERT_EQ(reproduction["claims"].size(), 9);
  ASSERT_EQ(reproduction["runs"].size(), 3);
  for (const json& run : reproduction["runs"]) EXPECT_TRUE(run["heldout_loss"].is_number()) << run;
  EXPECT_EQ(reproduction["claims"][4]["verdict"], "not measured");
}

// All nine models once, from text to verdicts.
TEST_F(ReproduceCommandTest, ComparesRouters) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 1'500'000, /*labeled=*/true);
  const Arguments command = {"reproduce", corpus.string(), "--paper",
                             "lory",      "--routers",     "--steps",
                             "12",        "--output",      (root_ / "result").string(),
                             "--json"};
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const json reproduction = json::parse(first.output);
  EXPECT_EQ(reproduction["experiment"], "routers");
  ASSERT_EQ(reproduction["runs"].size(), 18);
  for (const json& run : reproduction["runs"]) EXPECT_TRUE(run["heldout_loss"].is_number()) << run;
  ASSERT_EQ(reproduction["claims"].size(), 8);
  for (const json& claim : reproduction["claims"]) {
    for (const json& part : claim["parts"]) {
      const bool measured =
          claim["number"] != 2 || part["name"].get<std::string>().find("time") == std::string::npos;
      EXPECT_EQ(part["effect"].is_number(), measured) << part;
    }
  }
  EXPECT_THAT(Contents(root_ / "result" / "reproduction.html"),
              AllOf(HasSubstr("Soft merging against other routers"), HasSubstr("routers.md")));
  EXPECT_EQ(Run(command).exit_code, 0);
  EXPECT_EQ(NumRuns(), 18);
  EXPECT_THAT(Run({"reproduce", corpus.string(), "--paper", "emoe", "--routers"}).errors,
              HasSubstr("--routers: got it with emoe, expected --paper lory"));
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
  EXPECT_EQ(NumRuns(), 0);
}

TEST_F(ReproduceCommandTest, RejectsInvalidArguments) {
  EXPECT_EQ(Run({"reproduce", "--quick", "--full"}).exit_code, 2);
  EXPECT_EQ(Run({"reproduce", "--seeds", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"reproduce", "--split-bytes", "10"}).exit_code, 2);
  EXPECT_THAT(Run({"reproduce", ""}).errors, HasSubstr("PATH: got \"\""));
  const Outcome remote = Run({"--server", "127.0.0.1:1", "reproduce"});
  EXPECT_NE(remote.exit_code, 0);
  EXPECT_THAT(remote.errors, HasSubstr("expected files or directories of the server"));
}

}  // namespace reproduce_command_test
}  // namespace braid
