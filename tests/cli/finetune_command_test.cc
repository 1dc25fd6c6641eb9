// `braid finetune --experts` from a dense model to a tuned dense model, with the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/safetensors.h"
#include "runs/run_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/program.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace finetune_command_test {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

class FinetuneCommandTest : public testing::Test {
 protected:
  FinetuneCommandTest() : root_(NewDirectory("finetune")) {
    std::string records;
    for (const char* const word : {"cat", "dog", "mat", "sat"}) {
      records += std::string(R"({"prompt":"the )") + word + R"( ","completion":"ran"})" + "\n";
    }
    EXPECT_TRUE(WriteFileAtomically(root_ / "pairs.jsonl", records).ok());
  }
  static void SetUpTestSuite() {
    const fs::path tokenizer =
        NewTokenizer("the cat sat on the mat and the dog ran after the cat. ", 280);
    base_ = new fs::path(NewTextRun(NewTextDataset(tokenizer), 1).root());
  }

  Outcome Braid(const Arguments& arguments) const {
    Arguments all = {BRAID_BIN_DIR "/braid", "--home", (root_ / "home").string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    TestProgram program(all);
    const int exit_code = program.Wait();
    return {exit_code, program.out(), program.err()};
  }
  Outcome Finetune(const Arguments& more) const {
    Arguments all = {"finetune",     base_->string(),
                     "--data",       (root_ / "pairs.jsonl").string(),
                     "--validation", "0",
                     "--steps",      "2",
                     "--batch",      "2",
                     "--threads",    "1"};
    all.insert(all.end(), more.begin(), more.end());
    return Braid(all);
  }
  // Launches a run, waits for it and returns it.
  json Tuned(const Arguments& more) const {
    Arguments all = {"--wait", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = Finetune(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }
  // Exports a model and returns the architecture.
  std::string Exported(const std::string& model, const std::string& name,
                       const Arguments& more = {}) const {
    Arguments all = {"export", model, "-o", (root_ / name).string(), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = Braid(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out).value("architecture", "");
  }

  const fs::path root_;
  static fs::path* base_;
};

fs::path* FinetuneCommandTest::base_ = nullptr;

const Arguments kExperts = {"--experts", "4", "--active-experts", "2", "--layers=-1"};

Arguments With(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(FinetuneCommandTest, ADryRunShowsTheSplitAndWritesNothing) {
  const Outcome outcome = Finetune(With(kExperts, {"--lora", "r=2", "--dry-run"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("4 of 8 hidden units by KEYS in layers 1; a token uses "
                                           "2 (KEY_MEAN)"),
                                 HasSubstr("exports    a dense model"),
                                 HasSubstr("time       at least "), HasSubstr(": 2 steps of ")));
  const Outcome as_json = Finetune(With(kExperts, {"--dry-run", "--json", "--no-recompose"}));
  const json plan = json::parse(as_json.out);
  EXPECT_EQ(plan["split"]["layers"], json({1}));
  EXPECT_GT(plan["forecast"]["step_seconds"], 0);
  const double positions =
      plan["num_sequences"].get<double>() * plan["sequence_length"].get<double>();
  EXPECT_EQ(plan["forecast"]["request"]["target_share"],
            plan["num_targets"].get<double>() / positions);
  // Positions see half of their example: fewest if all examples are equally long.
  const double tokens = plan["num_tokens"], examples = plan["num_examples"];
  const double keys = plan["forecast"]["request"]["mean_visible_keys"];
  EXPECT_GT(keys, tokens * tokens / examples / 2 / positions - 1e-9);
  EXPECT_LT(keys, plan["sequence_length"].get<double>() / 2);
  EXPECT_FALSE(fs::exists(root_ / "home/supervised"));
}

TEST_F(FinetuneCommandTest, SplitsOnceTunesAndExportsADenseModel) {
  const json first = Tuned(With(kExperts, {"--lora", "r=2"}));
  const fs::path start = first["spec"]["init_from"].get<std::string>();
  EXPECT_THAT(start.string(), HasSubstr("home/supervised/converted-"));
  EXPECT_EQ(first["spec"]["finetuning"]["recompose"], true);
  EXPECT_EQ(first["spec"]["model"]["routing"]["router"], "TOKEN_CHOICE");
  // A repeated command uses the same checkpoint; other settings make another.
  const std::string manifest = *ReadFile(start / "manifest.json");
  const auto written = fs::last_write_time(start / "model.safetensors");
  const json second = Tuned(With(kExperts, {"--lora", "r=1"}));
  EXPECT_EQ(second["spec"]["init_from"], start.string());
  EXPECT_EQ(fs::last_write_time(start / "model.safetensors"), written);
  EXPECT_EQ(*ReadFile(start / "manifest.json"), manifest);
  const json other = Tuned(With(kExperts, {"--lora", "r=1", "--split", "Random"}));
  EXPECT_NE(other["spec"]["init_from"], start.string());

  EXPECT_EQ(Exported("run-000001", "tuned"), "LlamaForCausalLM");
  const Outcome merged =
      Braid({"export", "run-000001", "-o", (root_ / "merged").string(), "--merge"});
  EXPECT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_THAT(merged.out,
              AllOf(HasSubstr("LlamaForCausalLM"), HasSubstr("joined the experts in ")));
  EXPECT_THAT(merged.out, HasSubstr("merged adapters into 4 tensors; logits differ"));
  const Outcome no_adapters =
      Braid({"export", base_->string(), "-o", (root_ / "none").string(), "--merge"});
  EXPECT_EQ(no_adapters.exit_code, 2);
  EXPECT_THAT(no_adapters.err, HasSubstr("holds no adapters to merge"));
  EXPECT_EQ(Exported("run-000001", "routed", {"--active-experts", "4"}), "BraidSoftMoeForCausalLM");
  Exported(base_->string(), "plain");
  ASSERT_OK_AND_ASSIGN(const auto tuned, SafetensorsFile::Open(root_ / "tuned/model.safetensors"));
  ASSERT_OK_AND_ASSIGN(const auto plain, SafetensorsFile::Open(root_ / "plain/model.safetensors"));
  ASSERT_EQ(tuned.tensors().size(), plain.tensors().size());
  int num_ffn = 0, num_changed = 0;
  for (const TensorInfo& tensor : plain.tensors()) {
    ASSERT_OK_AND_ASSIGN(const auto before, plain.Bytes(tensor.name));
    ASSERT_OK_AND_ASSIGN(const auto after, tuned.Bytes(tensor.name));
    const bool ffn = tensor.name.find(".mlp.") != tensor.name.npos;
    num_ffn += ffn;
    num_changed += before != after;
    EXPECT_TRUE(!ffn || before == after) << tensor.name;
  }
  EXPECT_EQ(num_ffn, 2 * 3);
  EXPECT_EQ(num_changed, 2 * 2) << "q and v of two layers";
}

// Adapters leave all other parameters as they are, but a gate that is new has to learn.
TEST_F(FinetuneCommandTest, AdaptersTrainTheGateOfNewExperts) {
  const Arguments linear = With(kExperts, {"--lora", "r=2", "--gate", "linear", "--no-recompose"});
  EXPECT_THAT(Finetune(With(linear, {"--dry-run"})).out,
              HasSubstr("the gate has no gradient with combine weights ONES"));
  const Arguments balanced = With(linear, {"--set", "model.routing.token.balance_loss=0.1"});
  EXPECT_THAT(Finetune(With(balanced, {"--dry-run"})).out, Not(HasSubstr("no gradient")));
  const json run = Tuned(balanced);
  EXPECT_EQ(run["spec"]["finetuning"]["train"], json({"*.mlp.router.*"}));
  Exported(run["spec"]["init_from"], "start");
  Exported("run-000001", "tuned", {"--merge"});
  ASSERT_OK_AND_ASSIGN(const auto start, SafetensorsFile::Open(root_ / "start/model.safetensors"));
  ASSERT_OK_AND_ASSIGN(const auto tuned, SafetensorsFile::Open(root_ / "tuned/model.safetensors"));
  const std::string router = "model.layers.1.mlp.router.weight";
  ASSERT_OK_AND_ASSIGN(const auto before, start.Bytes(router));
  ASSERT_OK_AND_ASSIGN(const auto after, tuned.Bytes(router));
  EXPECT_NE(before, after);
}

// The seconds of a split are in the output of the command and in the log of the run.
TEST_F(FinetuneCommandTest, TheTimeOfASplitIsLogged) {
  const Outcome outcome =
      Finetune({"--experts", "4", "--layers", "-1", "--recompose", "--lora", "r=2", "--wait"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("assigned the units to experts in 0.0 s"));
  ASSERT_OK_AND_ASSIGN(const std::string log,
                       ReadFile(RunDirectory(root_ / "home/runs/run-000001").log()));
  EXPECT_THAT(log, HasSubstr(": units assigned in 0.0 s"));
}

TEST_F(FinetuneCommandTest, ModelsWhoseLayersMixAreNotSplit) {
  const json run = Tuned({"--lora", "r=2", "--set", "model.layer_mixing.alpha=0.9"});
  EXPECT_EQ(run["state"], "RUN_SUCCEEDED");
  const Outcome outcome = Braid({"finetune", "run-000001", "--data",
                                 (root_ / "pairs.jsonl").string(), "--experts", "4", "--dry-run"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--experts: got a model whose layers mix"));
}

TEST_F(FinetuneCommandTest, SplitsThatDoNotFitAreRefused) {
  const auto refused = [&](const Arguments& more) {
    const Outcome outcome = Finetune(With(more, {"--dry-run"}));
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_THAT(refused({"--experts", "5"}), HasSubstr("the nearest are 4 and 8"));
  EXPECT_THAT(refused({"--experts", "4", "--layers", "2"}), HasSubstr("layers: got 2"));
  EXPECT_THAT(refused({"--experts", "4", "--layers=1,-1"}), HasSubstr("listed twice"));
  EXPECT_THAT(refused({"--experts", "4", "--split", "copies"}), HasSubstr("--no-recompose"));
  EXPECT_THAT(refused({"--experts", "4", "--gate", "linear"}), HasSubstr("gate LINEAR is trained"));
  EXPECT_THAT(refused({"--layers=-1"}), HasSubstr("--experts"));
  EXPECT_EQ(
      Finetune({"--experts", "4", "--split", "copies", "--no-recompose", "--dry-run"}).exit_code,
      0);
  const Outcome converted =
      Braid({"convert", base_->string(), "-o", (root_ / "experts").string(), "--experts", "4"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  const Outcome twice = Braid({"finetune", (root_ / "experts").string(), "--data",
                               (root_ / "pairs.jsonl").string(), "--experts", "4", "--dry-run"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("the model has experts, expected a dense one"));
}

TEST_F(FinetuneCommandTest, ConversationsTakeTheTemplateOfTheModelAndTextLeavesIt) {
  const std::string chats = (root_ / "chats.jsonl").string();
  ASSERT_TRUE(
      WriteFileAtomically(
          chats,
          R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a"}]})")
          .ok());
  const auto launched = [&](const std::string& model, const std::string& data, Arguments more) {
    more = With({"--json", "finetune", model, "--data", data, "--validation", "0", "--steps", "1",
                 "--batch", "1", "--threads", "1", "--wait"},
                more);
    const Outcome outcome = Braid(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false)["spec"]["model"];
  };
  const auto template_of = [&](const std::string& model, const std::string& data) {
    const Outcome outcome =
        Braid({"--json", "finetune", model, "--data", data, "--validation", "0", "--dry-run"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const json plan = json::parse(outcome.out);
    return std::pair(plan["template"].get<std::string>(),
                     plan["model_template"].get<std::string>());
  };
  using Templates = std::pair<std::string, std::string>;
  const std::string pairs = (root_ / "pairs.jsonl").string();
  EXPECT_EQ(template_of(base_->string(), chats), Templates("chatml", "chatml"));
  EXPECT_EQ(template_of(base_->string(), pairs), Templates("plain", "plain"));
  EXPECT_EQ(launched(base_->string(), chats, {"--template", "llama3"})["chat_template"], "llama3");
  EXPECT_EQ(template_of("run-000001", chats), Templates("llama3", "llama3"));
  EXPECT_EQ(template_of("run-000001", pairs), Templates("plain", "llama3"));
  EXPECT_EQ(launched("run-000001", pairs, {})["chat_template"], "llama3");
  EXPECT_EQ(launched("run-000001", pairs, {"--template", "zephyr"})["chat_template"], "zephyr");

  // A model whose template is unknown.
  Exported("run-000001", "upstream");
  const fs::path settings = root_ / "upstream/tokenizer_config.json";
  json changed = json::parse(*ReadFile(settings));
  changed["chat_template"] = "{{ messages[0]['content'] }}";
  ASSERT_TRUE(WriteFileAtomically(settings, changed.dump()).ok());
  const std::string imported = (root_ / "imported").string();
  EXPECT_THAT(Braid({"import", (root_ / "upstream").string(), "-o", imported}).out,
              HasSubstr("its chat template is unknown: name one with --template"));
  EXPECT_THAT(Braid({"export", imported, "-o", (root_ / "without").string()}).err,
              HasSubstr("not written; copy chat_template from the original"));
  const Outcome refused = Braid({"finetune", imported, "--data", chats, "--dry-run"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--template: got none"), HasSubstr("does not know"),
                                 HasSubstr("plain, alpaca, chatml, llama2, llama3, zephyr")));
  EXPECT_EQ(template_of(imported, pairs), Templates("plain", ""));
  const json kept = launched(imported, pairs, {});
  EXPECT_EQ(kept.value("unknown_chat_template", false), true);
  EXPECT_EQ(kept.value("chat_template", ""), "");
  const json named = launched(imported, chats, {"--template", "chatml"});
  EXPECT_EQ(named.value("unknown_chat_template", false), false);
  EXPECT_EQ(named["chat_template"], "chatml");
}

TEST_F(FinetuneCommandTest, NoiseAndExpertsOfAModelAreAnalyzed) {
  const Outcome noisy = Braid({"convert", base_->string(), "-o", (root_ / "noisy").string(),
                               "--noise", "0.15", "--seed", "3"});
  ASSERT_EQ(noisy.exit_code, 0) << noisy.err;
  EXPECT_THAT(noisy.out, HasSubstr("noise of 0.15 standard deviations"));
  const Outcome analyzed =
      Braid({"analyze", "experts", base_->string(), "--experts", "4", "--active-experts", "1",
             "--layers=-1", "--threads", "1", "--task", "sst2", "--task-data",
             BRAID_TESTS_DIR "/evaluation/tasks/samples"});
  ASSERT_EQ(analyzed.exit_code, 0) << analyzed.err;
  EXPECT_THAT(analyzed.out, AllOf(HasSubstr("1 of 4 experts on"), HasSubstr("MASS"),
                                  HasSubstr("even"), HasSubstr("sst2"), HasSubstr("MOST CHOSEN")));
  const Outcome as_json = Braid(
      {"--json", "analyze", "experts", base_->string(), "--experts", "4", "--max-windows", "1"});
  ASSERT_EQ(as_json.exit_code, 0) << as_json.err;
  EXPECT_EQ(json::parse(as_json.out)["layers"].size(), 2u);
}

}  // namespace finetune_command_test
}  // namespace braid
