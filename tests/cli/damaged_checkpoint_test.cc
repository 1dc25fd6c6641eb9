// A run whose newest checkpoint is damaged: every command that uses its model warns and names the
// step in its result, or refuses. All use a braidd but the last test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "tests/program.h"
#include "tests/trainer/text_run.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace damaged_checkpoint_test {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kNote[] = "step 10 was used instead of the newest, step 20: checkpoint ";

// Integers of 64 bits are strings in the JSON of protobuf.
int64_t NumberIn(const json& value) {
  return value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>();
}

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

class DamagedCheckpointTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained_ = new fs::path(TrainTextRun(10).root());
    trained_dense_ = new fs::path(TrainDenseTextRun(10).root());
  }

  DamagedCheckpointTest()
      : root_(NewDirectory("damaged")), run_(root_ / "run"), dense_run_(root_ / "dense") {
    fs::copy(*trained_, run_, fs::copy_options::recursive);
    fs::copy(*trained_dense_, dense_run_, fs::copy_options::recursive);
    // Sentences of a few tokens, which fit into the context.
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "T";
      for (const int letter : {i % 20, i / 20, 7 * i % 20, 11 * i % 20}) {
        text += {' ', static_cast<char>('a' + letter)};
      }
      text += ".\n\n";
    }
    EXPECT_TRUE(WriteFileAtomically(root_ / "sentences.txt", text).ok());
  }

  void SetUp() override {
    server_.emplace(Arguments{BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--home",
                              (root_ / "home").string(), "--allow", root_.string(), "--allow",
                              BRAID_TESTS_DIR, "--allow", trained_->parent_path().string(),
                              "--allow", trained_dense_->parent_path().string()});
    address_ = server_->WaitForOutput(" at ", ", state");
    ASSERT_FALSE(address_.empty()) << server_->err();
  }

  static fs::path CheckpointOf(const fs::path& run, int step) {
    return run / "checkpoints" / (step == 10 ? "step-00000010" : "step-00000020");
  }
  fs::path Checkpoint(int step) const { return CheckpointOf(run_, step); }

  // Flips bit 2 of a byte of the weights.
  static void Damage(const fs::path& checkpoint) {
    const fs::path file = checkpoint / "model.safetensors";
    std::string bytes = *ReadFile(file);
    bytes[bytes.size() / 2] ^= 4;
    ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
  }
  void DamageNewest() const {
    Damage(Checkpoint(20));
    Damage(CheckpointOf(dense_run_, 20));
  }

  Outcome Braid(const Arguments& arguments) const {
    Arguments all = {BRAID_BIN_DIR "/braid", "--home", root_ / "home", "--server", address_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(all);
  }

  static Outcome Run(const Arguments& arguments) {
    TestProgram program(arguments);
    const int exit_code = program.Wait();
    return {exit_code, program.out(), program.err()};
  }

  // Runs a command that must succeed with a warning, and returns its output.
  std::string Warned(const Arguments& arguments) const {
    return OutputAfterWarning(Braid(arguments), arguments);
  }

  static std::string OutputAfterWarning(const Outcome& outcome, const Arguments& arguments) {
    EXPECT_EQ(outcome.exit_code, 0) << arguments[0] << ": " << outcome.err;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("braid: warning: "), HasSubstr(kNote),
                      HasSubstr("step-00000020 is damaged: "), HasSubstr("model.safetensors")))
        << arguments[0];
    const size_t begin = outcome.err.find("braid: warning: ");
    EXPECT_LE(outcome.err.find('\n', begin) - begin, 300u) << outcome.err;
    return outcome.out;
  }

  void ExpectSource(const json& source) const { ExpectSource(source, run_); }
  static void ExpectSource(const json& source, const fs::path& run) {
    EXPECT_EQ(NumberIn(source["step"]), 10) << source;
    EXPECT_EQ(NumberIn(source["newest_step"]), 20) << source;
    EXPECT_EQ(source["checkpoint"], CheckpointOf(run, 10).string());
    ASSERT_EQ(source["skipped"].size(), 1u) << source;
    EXPECT_THAT(source["skipped"][0].get<std::string>(), HasSubstr("step-00000020 is damaged"));
  }

  static double Perplexity(const json& result) {
    return result["evaluations"][0]["total"]["perplexity"].get<double>();
  }

  Arguments Layers(const Arguments& more) const {
    Arguments all = {"analyze", "layers", run_, "--text", root_ / "sentences.txt"};
    all.insert(all.end(), {"--probe", "swapped_words", "--sentences", "100"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  const fs::path root_, run_, dense_run_;
  std::optional<TestProgram> server_;
  std::string address_;
  static fs::path *trained_, *trained_dense_;
};

fs::path* DamagedCheckpointTest::trained_ = nullptr;
fs::path* DamagedCheckpointTest::trained_dense_ = nullptr;

TEST_F(DamagedCheckpointTest, PerplexityAndReportNameTheStep) {
  DamageNewest();
  const json used = json::parse(Warned({"eval", "perplexity", run_, "--json"}));
  ExpectSource(used["evaluations"][0]["source"]);
  const Outcome named = Braid({"eval", "perplexity", Checkpoint(10), "--strict", "--json"});
  EXPECT_THAT(named.err, Not(HasSubstr("warning"))) << named.err;
  EXPECT_EQ(Perplexity(used), Perplexity(json::parse(named.out)));

  const fs::path page = root_ / "report.html";
  const Outcome report = Braid({"report", run_, "-o", page});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(report.out + report.err, HasSubstr(kNote));
  EXPECT_THAT(*ReadFile(page), AllOf(HasSubstr(kNote), HasSubstr("at step 10")));
}

TEST_F(DamagedCheckpointTest, TasksNameTheStep) {
  DamageNewest();
  const json result = json::parse(
      Warned({"eval", "tasks", run_, "--data", BRAID_TESTS_DIR "/evaluation/tasks/samples",
              "--task", "piqa", "--shots", "0", "--max-examples", "1", "--json"}));
  ExpectSource(result["source"]);
}

TEST_F(DamagedCheckpointTest, RoutingAnalysisAndItsPageNameTheStep) {
  DamageNewest();
  const fs::path page = root_ / "routing.html";
  ExpectSource(json::parse(Warned({"analyze", "routing", run_, "-o", page, "--json"}))["source"]);
  EXPECT_THAT(*ReadFile(page), HasSubstr(kNote));
}

TEST_F(DamagedCheckpointTest, ExpertsAnalysisAndItsPageNameTheStep) {
  DamageNewest();
  const fs::path page = root_ / "experts.html";
  const Arguments command = {"analyze", "experts", dense_run_, "--experts",
                             "4",       "-o",      page,       "--json"};
  ExpectSource(json::parse(Warned(command))["source"], dense_run_);
  EXPECT_THAT(*ReadFile(page), HasSubstr(kNote));
}

TEST_F(DamagedCheckpointTest, ExpertsAnalysisNamesCheckpointsThatItCannotCompare) {
  Damage(CheckpointOf(dense_run_, 10));
  Arguments command = {"analyze", "experts", dense_run_, "--experts", "4", "--json"};
  const Outcome outcome = Braid(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("braid: warning: choices of step 10 were not compared: "),
                    HasSubstr("step-00000010 is damaged: ")));
  const json result = json::parse(outcome.out);
  EXPECT_FALSE(result.contains("drift")) << outcome.out;
  EXPECT_EQ(NumberIn(result["source"]["step"]), 20);
  EXPECT_THAT(result["source"]["skipped"][0].get<std::string>(), HasSubstr("choices of step 10"));
  command.push_back("--strict");
  const Outcome strict = Braid(command);
  EXPECT_NE(strict.exit_code, 0);
  EXPECT_THAT(strict.err, HasSubstr("step-00000010 is damaged"));
}

TEST_F(DamagedCheckpointTest, LayersAnalysisAndItsPageNameTheStep) {
  DamageNewest();
  const fs::path page = root_ / "layers.html";
  ExpectSource(json::parse(Warned(Layers({"-o", page, "--json"})))["source"]);
  EXPECT_THAT(*ReadFile(page), HasSubstr(kNote));
}

TEST_F(DamagedCheckpointTest, ConversionsNameTheStep) {
  DamageNewest();
  const Arguments command = {"convert",   dense_run_, "-o",    root_ / "experts",
                             "--experts", "4",        "--json"};
  ExpectSource(json::parse(Warned(command))["source"], dense_run_);
  EXPECT_THAT(*ReadFile(root_ / "experts/conversion.textproto"), HasSubstr("step-00000010"));
}

TEST_F(DamagedCheckpointTest, GeneratedTextNamesTheStep) {
  DamageNewest();
  const Arguments one = {"generate", run_, "--prompt", "the", "--max-tokens", "3"};
  Warned(one);
  Arguments as_json = one;
  as_json.push_back("--json");
  const std::string lines = Warned(as_json);
  ExpectSource(json::parse(lines.substr(0, lines.find('\n')))["source"]);

  const fs::path prompts = root_ / "prompts.txt";
  ASSERT_TRUE(WriteFileAtomically(prompts, "the cat\nthe dog\n").ok());
  const Outcome batch =
      Braid({"generate", run_, "--prompts", prompts, "--max-tokens", "3", "--json"});
  EXPECT_EQ(batch.err.find(kNote), batch.err.rfind(kNote)) << "once for a batch: " << batch.err;
  EXPECT_THAT(batch.err, HasSubstr(kNote));
  int num_lines = 0;
  for (size_t begin = 0, end; (end = batch.out.find('\n', begin)) != std::string::npos;
       begin = end + 1, ++num_lines) {
    ExpectSource(json::parse(batch.out.substr(begin, end - begin))["source"]);
  }
  EXPECT_EQ(num_lines, 2) << "one for each prompt";
}

TEST_F(DamagedCheckpointTest, ExportRefusesUnlessAllowed) {
  DamageNewest();
  const fs::path output = root_ / "llama";
  const Outcome refused = Braid({"export", run_, "-o", output});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("step-00000020 is damaged"), HasSubstr(Checkpoint(10).string())));
  EXPECT_FALSE(fs::exists(output));
  ExpectSource(
      json::parse(Warned({"export", run_, "-o", output, "--no-strict", "--json"}))["source"]);
  EXPECT_TRUE(fs::exists(output / "config.json"));
}

TEST_F(DamagedCheckpointTest, StrictRefusesEverywhere) {
  DamageNewest();
  const std::vector<Arguments> commands = {
      {"eval", "perplexity", run_},
      {"eval", "tasks", run_, "--data", BRAID_TESTS_DIR "/evaluation/tasks/samples"},
      {"analyze", "routing", run_},
      {"analyze", "experts", dense_run_, "--experts", "4"},
      Layers({}),
      {"convert", dense_run_, "-o", root_ / "experts", "--experts", "4"},
      {"generate", run_, "--prompt", "the"},
      {"export", run_, "-o", root_ / "strict"}};
  // With a server, the model is in memory already.
  Warned({"generate", run_, "--prompt", "the", "--max-tokens", "1"});
  for (Arguments command : commands) {
    command.push_back("--strict");
    const Outcome outcome = Braid(command);
    EXPECT_NE(outcome.exit_code, 0) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("step-00000020 is damaged")) << command[0];
    EXPECT_THAT(outcome.out, IsEmpty()) << command[0];
  }
}

TEST_F(DamagedCheckpointTest, IntactRunGivesNoWarning) {
  for (const Arguments& command :
       {Arguments{"eval", "perplexity", run_, "--strict", "--json"},
        Arguments{"generate", run_, "--prompt", "the", "--max-tokens", "1", "--strict", "--json"},
        Arguments{"export", run_, "-o", root_ / "llama", "--json"}}) {
    const Outcome outcome = Braid(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("warning")));
    EXPECT_THAT(outcome.out, HasSubstr("step-00000020"));
  }
}

TEST_F(DamagedCheckpointTest, ServicesInTheProcessOfACommandDoTheSame) {
  DamageNewest();
  const Arguments command = {BRAID_BIN_DIR "/braid", "--home", root_ / "alone", "eval",
                             "perplexity",           run_,     "--json"};
  ExpectSource(json::parse(OutputAfterWarning(Run(command), command))["evaluations"][0]["source"]);
  Arguments strict = command;
  strict.push_back("--strict");
  const Outcome refused = Run(strict);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("step-00000020 is damaged"));
}

}  // namespace damaged_checkpoint_test
}  // namespace braid
