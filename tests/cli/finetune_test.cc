// The command finetune from its records to the evaluation of its run, with the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "tests/program.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace finetune_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class FinetuneTest : public testing::Test {
 protected:
  FinetuneTest() {
    std::string records;
    for (int i = 0; i < 40; ++i) {
      absl::StrAppend(&records, "{\"prompt\": \"cat ", i, "\", \"completion\": \" dog ", i % 7,
                      "\"}\n");
    }
    EXPECT_TRUE(WriteFileAtomically(data_, records).ok());
  }

  // Runs a command that must succeed and returns its standard output.
  std::string Braid(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {BRAID_BIN_DIR "/braid", "--home", (root_ / "home").string()});
    TestProgram program(arguments);
    EXPECT_EQ(program.Wait(), 0) << program.err();
    return program.out();
  }

  // Trains on half of the examples, one step after the other half has been scored.
  json Finetune(const std::string& model) const {
    return json::parse(Braid({"--json", "finetune", model, "--data", data_.string(), "--validation",
                              ".5", "--steps", "2", "--threads", "1", "--wait"}));
  }

  const fs::path root_ = NewDirectory("finetune");
  const fs::path data_ = root_ / "pairs.jsonl";
  const fs::path base_ =
      NewTextRun(NewTextDataset(NewTokenizer("the cat sat on the mat and the dog ran. ", 275)), 1)
          .root();
};

TEST_F(FinetuneTest, ValidatesOnAllHeldOutExamplesAsTheEvaluationDoes) {
  const json run = Finetune(base_.string());
  const json result =
      json::parse(Braid({"--json", "eval", "perplexity", "run-000001", "--threads", "1"}));
  const json& all = result.at("evaluations").at(0).at("total");
  const json& validation = run.at("latest").at("validation");
  EXPECT_EQ(validation.at("num_windows"), all.at("num_windows"));
  EXPECT_GT(std::stoi(all.at("num_windows").get<std::string>()), 1);
  EXPECT_NEAR(validation.at("loss").get<double>(), all.at("loss").get<double>(), 1e-5);
  EXPECT_EQ(all.at("num_tokens"), all.at("num_tokens_after_first_segment"));
}

TEST_F(FinetuneTest, PrintsTheLaunchOfARunThatIsNamedById) {
  Finetune(base_.string());
  const std::string launch = Braid(
      {"finetune", "run-000001", "--data", data_.string(), "--lora", "r=2", "--print-launch"});
  EXPECT_THAT(launch, HasSubstr("braid-supervisor"));
  EXPECT_FALSE(fs::exists(root_ / "home/runs/run-000002"));
}

TEST_F(FinetuneTest, PlansSequencesThatTheSegmentsOfADenseModelDoNotDivide) {
  const json plan = json::parse(Braid({"--json", "finetune", base_.string(), "--data",
                                       data_.string(), "--sequence-length", "29", "--dry-run"}));
  EXPECT_EQ(plan.at("sequence_length"), 29);
  // A step has four sequences, which one rank passes at once.
  EXPECT_EQ(plan.at("forecast").at("request").at("micro_batch_size"), 4);
}

}  // namespace finetune_test
}  // namespace braid
