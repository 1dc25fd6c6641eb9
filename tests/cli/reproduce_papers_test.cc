// `braid reproduce --paper`, `--experiment` and `--routers`, with few steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"
#include "tests/cli/reproduce_fixture.h"

namespace braid {
namespace reproduce_papers_test {

namespace fs = std::filesystem;
using nlohmann::json;
using reproduce_fixture::WriteCorpus;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ReproducePapersTest : public reproduce_fixture::ReproduceFixture {};

// Two arms of another paper, from text to verdicts.
TEST_F(ReproducePapersTest, TestsAnotherPaperWithSomeOfItsArms) {
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

void WriteLines(const fs::path& path, int count, const auto& line) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < count; ++i) file << line(i);
}

// Returns a directory with a few examples of the tasks of fine-tuning experiments.
fs::path WriteTasks(const fs::path& directory) {
  const auto write = [&](const std::string& path, int count, const auto& line) {
    WriteLines(directory / path, count, line);
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
    return (i == 0 ? "Question,Numbers,Equation\n" : "") +
           std::string("Add number0 to number1 in case ") + std::to_string(i) + " ?,9.0 2.0," +
           (i % 2 ? "+" : "-") + " number0 number1\n";
  };
  write("mawps/train.csv", 60, problem);
  write("mawps/dev.csv", 8, problem);
  return directory;
}

// Base models, conversions, fine-tuning runs, scores on tasks with and without routing, verdicts.
TEST_F(ReproducePapersTest, TestsAPaperOnFineTuning) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 800'000, /*labeled=*/true);
  Arguments command = {"reproduce",
                       corpus.string(),
                       "--paper",
                       "emoe",
                       "--tasks",
                       WriteTasks(root_ / "tasks").string(),
                       "--arms",
                       "initial,plain,emoe,learned-gate",
                       "--steps",
                       "10",
                       "--json",
                       "--output",
                       (root_ / "result").string()};
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const json reproduction = json::parse(first.output);
  ASSERT_EQ(reproduction["runs"].size(), 8);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(reproduction["runs"][i]["heldout_loss"].is_number());
  }
  for (size_t i = 2; i < 8; ++i) {
    const json& run = reproduction["runs"][i];
    ASSERT_FALSE(run["scores"].empty()) << run;
    EXPECT_GT(run["training_loss"], 0) << run;
    for (const json& score : run["scores"]) EXPECT_TRUE(score["answer_loss"].is_number()) << run;
  }
  const json& claims = reproduction["claims"];
  ASSERT_EQ(claims.size(), 12);
  for (const size_t claim : {0, 1, 3, 4, 10}) {
    EXPECT_TRUE(claims[claim]["parts"][0]["effect"].is_number()) << claims[claim];
  }
  EXPECT_TRUE(claims[3]["parts"][1]["effect"].is_number()) << "changed choices: " << claims[3];
  // All experts together are the dense model; with half of them it is another one.
  EXPECT_NE(claims[4]["parts"][0]["effect"], 0);
  EXPECT_TRUE(claims[4]["parts"][1]["effect"].is_number()) << claims[4];
  EXPECT_EQ(claims[6]["verdict"], "not measured");
  EXPECT_THAT(Contents(root_ / "result" / "reproduction.html"),
              AllOf(HasSubstr("Reproduction of EMoE"), HasSubstr("Fine-tuned models")));

  // A repeated command and another paper find the runs, whatever the output directory.
  command.back() = (root_ / "another result").string();
  const Outcome again = Run(command);
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(json::parse(again.output)["claims"], claims);
  EXPECT_EQ(NumRuns(), 8);
  const Outcome other =
      Run({"reproduce", corpus.string(), "--paper", "molex", "--tasks", (root_ / "tasks").string(),
           "--arms", "plain,molex", "--steps", "10", "--json"});
  ASSERT_EQ(other.exit_code, 0) << other.errors;
  EXPECT_EQ(NumRuns(), 10);
  const json parts = json::parse(other.output)["claims"][0]["parts"];
  EXPECT_TRUE(parts[0]["effect"].is_number()) << parts;  // plain minus molex
  EXPECT_FALSE(parts[1].contains("effect")) << parts;    // no frozen gate was trained
  const json robust = json::parse(other.output)["claims"][3]["parts"];
  EXPECT_TRUE(robust[2]["effect"].is_number()) << robust;
}

// Adds the tasks on which only --full tunes models.
void WriteExtraTasks(const fs::path& directory) {
  const auto topic = [](int i) {
    const std::string number = std::to_string(i);
    return "\"" + std::to_string(i % 4 + 1) + "\",\"Title " + number + "\",\"Text " + number +
           "\"\n";
  };
  WriteLines(directory / "ag_news/train.csv", 40, topic);
  WriteLines(directory / "ag_news/test.csv", 8, topic);
  const auto place = [](int i) {
    const std::string name = "Place " + std::to_string(i);
    return (i == 0 ? "mr,ref\n" : "") + std::string("\"name[") + name + "], food[Thai]\"," + name +
           " serves Thai food.\n";
  };
  WriteLines(directory / "e2e/trainset.csv", 40, place);
  WriteLines(directory / "e2e/testset_w_refs.csv", 4, place);
  // A part of these is trained on.
  WriteLines(directory / "yelp/test.csv", 40, [](int i) {
    return (i % 2 ? "\"2\",\"good " : "\"1\",\"bad ") + std::to_string(i) + "\"\n";
  });
  const fs::path samples = BRAID_TESTS_DIR "/evaluation/tasks/samples";
  for (const char* task : {"asdiv", "svamp"}) {
    fs::copy(samples / task, directory / task, fs::copy_options::recursive);
  }
}

// Returns the parts of a claim that were not measured.
std::vector<std::string> PartsWithoutEffect(const json& claim) {
  std::vector<std::string> names;
  for (const json& part : claim["parts"]) {
    if (!part.contains("effect") || !part["effect"].is_number())
      names.push_back(part["name"].get<std::string>());
  }
  return names;
}

// Experts that are copies, full tuning, other layers and selections; shares of examples, tasks
// together, written texts and numbers in the text. BRAID_ALL_TASKS in the environment runs it.
TEST_F(ReproducePapersTest, TestsPapersOnFineTuningWithTheirExtraTasks) {
  if (std::getenv("BRAID_ALL_TASKS") == nullptr) GTEST_SKIP() << "nightly";
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 800'000, /*labeled=*/true);
  const fs::path tasks = WriteTasks(root_ / "tasks");
  WriteExtraTasks(tasks);
  const auto claims_of = [&](const std::string& paper, const std::string& arms) {
    const Outcome outcome =
        Run({"reproduce", corpus.string(), "--paper", paper, "--tasks", tasks.string(), "--full",
             "--seeds", "1", "--steps", "10", "--arms", arms, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return json::parse(outcome.output)["claims"];
  };
  const json emoe = claims_of("emoe", "plain,emoe,full-emoe,copies,two-layers,not-top-4");
  ASSERT_EQ(emoe.size(), 12);
  const std::vector<std::string> of_first = PartsWithoutEffect(emoe[0]);
  EXPECT_THAT(of_first, Contains("plain minus emoe, all parameters trained"));
  for (const char* name : {"plain minus emoe, agnews", "right answers of emoe minus plain, yelp",
                           "plain minus emoe, e2e", "bleu of emoe minus plain"}) {
    EXPECT_THAT(of_first, Not(Contains(name)));
  }
  // Other origins, copies, amounts of data, and tasks together.
  for (const size_t claim : {1, 2, 8, 9}) {
    EXPECT_THAT(PartsWithoutEffect(emoe[claim]), IsEmpty()) << emoe[claim];
  }
  EXPECT_THAT(PartsWithoutEffect(emoe[5]), Not(Contains("not-top-4 minus plain")));
  EXPECT_THAT(PartsWithoutEffect(emoe[7]), Not(Contains("two-layers minus emoe")));
  EXPECT_EQ(NumRuns(), 1 + 2 * 13 + 4 * 2);

  const json molex = claims_of("molex", "plain,molex,own-layer");
  ASSERT_EQ(molex.size(), 8);
  EXPECT_THAT(PartsWithoutEffect(molex[0]), Not(Contains("own-layer minus molex")));
  // Texts, other origins and costs.
  for (const size_t claim : {1, 2, 5}) {
    EXPECT_THAT(PartsWithoutEffect(molex[claim]), IsEmpty()) << molex[claim];
  }
  EXPECT_EQ(NumRuns(), 35 + 5 + 2) << "those of plain are found";
}

TEST_F(ReproducePapersTest, RefusesTasksThatAreMissingOrNotUsed) {
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

TEST_F(ReproducePapersTest, TestsTheQuestionOfOrder) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 1'500'000, /*labeled=*/true);
  const Outcome outcome = Run({"reproduce", corpus.string(), "--experiment", "order", "--arms",
                               "dense-16-document,dense-random-first", "--steps", "10", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json reproduction = json::parse(outcome.output);
  ASSERT_EQ(reproduction["claims"].size(), 12);
  ASSERT_EQ(reproduction["runs"].size(), 3);
  for (const json& run : reproduction["runs"]) EXPECT_TRUE(run["heldout_loss"].is_number()) << run;
  EXPECT_EQ(reproduction["claims"][4]["verdict"], "not measured");
}

// Soft merging, a dense model and two other routers in both orders, from text to verdicts.
TEST_F(ReproducePapersTest, ComparesRouters) {
  const fs::path corpus = WriteCorpus(root_ / "corpus.jsonl", 1'500'000, /*labeled=*/true);
  const Arguments command = {"reproduce",
                             corpus.string(),
                             "--paper",
                             "lory",
                             "--routers",
                             "--arms",
                             "dense,moe,relu,expert-pool",
                             "--steps",
                             "10",
                             "--output",
                             (root_ / "result").string(),
                             "--json"};
  const Outcome first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const json reproduction = json::parse(first.output);
  EXPECT_EQ(reproduction["experiment"], "routers");
  ASSERT_EQ(reproduction["runs"].size(), 8);
  for (const json& run : reproduction["runs"]) EXPECT_TRUE(run["heldout_loss"].is_number()) << run;
  ASSERT_EQ(reproduction["claims"].size(), 8);
  int num_measured = 0;
  for (const json& claim : reproduction["claims"]) {
    const std::string name = claim["name"];
    const bool trained =
        name.ends_with("dense") || name.ends_with("relu") || name.ends_with("expert-pool");
    for (const json& part : claim["parts"]) {
      EXPECT_EQ(part["effect"].is_number(), trained) << name << part;
      num_measured += trained ? 1 : 0;
    }
  }
  EXPECT_EQ(num_measured, 3 * 5);
  EXPECT_THAT(Contents(root_ / "result" / "reproduction.html"),
              AllOf(HasSubstr("Soft merging against other routers"), HasSubstr("routers.md")));
  EXPECT_EQ(Run(command).exit_code, 0);
  EXPECT_EQ(NumRuns(), 8);
  EXPECT_THAT(
      Run({"reproduce", corpus.string(), "--paper", "emoe", "--routers"}).errors,
      HasSubstr("--routers: cannot be combined with emoe; it compares the router of --paper lory"));
}

}  // namespace reproduce_papers_test
}  // namespace braid
